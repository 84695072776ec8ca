"""Credentials by a program (``exec``) or an ``auth-provider`` of the kubeconfig.

The only module that imports the package ``kubernetes``; it is imported itself for such a kubeconfig
only. TLS settings and the user's certificate are those that the package finds.
"""

from __future__ import annotations

import ssl

from kubernetes.aio import config
from kubernetes.aio.client import Configuration

from scheduler.watch.credentials.errors import NoCluster
from scheduler.watch.credentials.kubeconfig import Selected


class PluginToken:
    """The token that the package has, and renews."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    async def header(self) -> str | None:
        """The header."""
        found: str | None = await self._configuration.get_api_key_with_prefix("BearerToken")
        return found


async def access(
    kubeconfig: str | None, chosen: Selected
) -> tuple[str, PluginToken, ssl.SSLContext]:
    """The URL, the token and the TLS settings of the chosen context."""
    configuration = Configuration()
    try:
        await config.load_kube_config(
            kubeconfig, context=chosen.context, client_configuration=configuration
        )
        tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (config.ConfigException, OSError, ValueError) as error:
        raise NoCluster(f"{chosen.user_file}: {error}") from error
    if not configuration.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return configuration.host, PluginToken(configuration), tls
