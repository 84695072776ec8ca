"""generate-webhook-certs.sh writes a pair that the webhook can serve."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tools.charts.copies import ROOT


@pytest.mark.contract("S2-17", "S0-27", "S0-28", "S0-B10")
def test_the_certificates_script_writes_a_pair_of_the_services_names(tmp_path: Path) -> None:
    """And a Secret of both and the authority; the authority's key is written nowhere."""
    environment = {"PATH": os.environ["PATH"], "CERT_DIR": str(tmp_path / "certs")}
    script = ROOT / "generate-webhook-certs.sh"
    ended = subprocess.run(
        [script], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    files = {path.name: path for path in (tmp_path / "certs").iterdir()}
    assert set(files) == {"ca.crt", "tls.crt", "tls.key", "webhook-tls-secret.yaml"}
    authority = base64.b64decode(ended.stdout)
    assert authority == files["ca.crt"].read_bytes()
    certificate = x509.load_pem_x509_certificate(files["tls.crt"].read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    service = "gpu-scheduler-webhook"
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert extension.get_values_for_type(x509.DNSName) == [
        service,
        f"{service}.gpu-scheduler-system",
        f"{service}.gpu-scheduler-system.svc",
        f"{service}.gpu-scheduler-system.svc.cluster.local",
    ]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    secret = yaml.safe_load(files["webhook-tls-secret.yaml"].read_text(encoding="utf-8"))
    assert secret["metadata"] == {"name": f"{service}-tls", "namespace": "gpu-scheduler-system"}
    assert base64.b64decode(secret["data"]["tls.key"]) == files["tls.key"].read_bytes()
    assert files["tls.key"].stat().st_mode & 0o077 == 0


@pytest.mark.contract("S3-7", "S3-24")
def test_the_certificate_may_be_for_further_names_and_addresses(tmp_path: Path) -> None:
    """For a webhook that runs outside of the cluster."""
    addresses = {"CERT_DIR": str(tmp_path), "ADDRESSES": "192.0.2.7,gpu.example,2001:db8::7"}
    subprocess.run(
        [ROOT / "generate-webhook-certs.sh"],
        env={"PATH": os.environ["PATH"], **addresses},
        capture_output=True,
        check=True,
        timeout=60,
    )
    certificate = x509.load_pem_x509_certificate((tmp_path / "tls.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName)[-1] == "gpu.example"
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == [
        "192.0.2.7",
        "2001:db8::7",
    ]
