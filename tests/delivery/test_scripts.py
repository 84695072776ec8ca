"""The scripts and files for local clusters, on a machine without a container engine.

With DRY_RUN=1 a script prints what it would run; order and words of that are checked here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from fakegpu.topology.document import read_topology
from fakegpu.topology.mig_config import read
from tools.charts.copies import ROOT
from tools.release import present

VERSION = present()
NAMED_BY_THE_SEEDS = (
    "Dockerfile",
    "generate-webhook-certs.sh",
    "argocd/gpu-scheduler-project.yaml",
    "argocd/gpu-scheduler-complete-applicationset.yaml",
    "argocd/local-cluster-secret.yaml",
    "argocd/validate-applicationset.sh",
    "charts/gpu-scheduler/Chart.yaml",
    "charts/gpu-scheduler-check/Chart.yaml",
    "charts/fake-gpu-operator/Chart.yaml",
    "cluster/kind-config.yaml",
    "cluster/setup-cluster.sh",
    "config/fake-gpu-values.yaml",
    "config/kind-gpu-cluster.yaml",
    "manifests/test-pods/test-deployment.yaml",
    "manifests/test-pods/test-job.yaml",
    "manifests/test-pods/test-medium-gpu.yaml",
    "scripts/build-images.sh",
    "scripts/configure-mig-profiles.sh",
    "scripts/deploy-local.sh",
    "scripts/setup-cluster.sh",
    "webhook/deploy/04-webhook-config.yaml",
    "webhook/scripts/build-and-deploy.sh",
    "webhook/scripts/generate-certs.sh",
    "webhook/scripts/init-go-module.sh",
)
SCRIPTS = [
    *sorted(
        path
        for folder in ("", "scripts", "cluster", "webhook/scripts", "argocd")
        for path in (ROOT / folder).glob("*.sh")
    ),
    ROOT / ".ci/run",
    ROOT / "requirements/compile",
]


def dry(script: str, *words: str, **more: str) -> str:
    """What a script would do, with the repository's folder taken out."""
    environment = {"PATH": os.environ["PATH"], "DRY_RUN": "1", **more}
    ended = subprocess.run(
        [ROOT / script, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ended.stdout.replace(f"{ROOT}/", "")


def in_order(text: str, *parts: str) -> None:
    """Each part comes after the one before it."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"{part!r} is missing, or too early, in:\n{text}"
        at = found + len(part)


PINNED_PYTHON = "registry.example/python@sha256:" + "1f" * 32


def test_a_release_is_built_from_base_images_by_digest() -> None:
    """One that is named by a digest is taken as it is, the other is asked for."""
    told = dry("scripts/build-images.sh", PINNED="1", PYTHON_IMAGE=PINNED_PYTHON)

    for image in ("gpu-scheduler", "gpu-scheduler-check"):
        bases = f"--build-arg PYTHON={PINNED_PYTHON} --build-arg GO=golang:1.26@DIGEST"
        in_order(told, f"--target {image} {bases}")
    assert "PINNED=1 TAG=" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("image", ["python@sha256:12", "python@sha256:" + "g" * 64])
def test_a_base_image_without_a_digest_ends_a_release(image: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        dry("scripts/build-images.sh", PINNED="1", PYTHON_IMAGE=image)

    assert f"{image} carries no digest" in caught.value.stderr


@pytest.mark.parametrize("name", NAMED_BY_THE_SEEDS)
@pytest.mark.contract("S0-13", "S2-24")
def test_a_file_that_a_seed_names_is_there(name: str) -> None:
    path = ROOT / name
    assert path.is_file()
    assert os.access(path, os.X_OK) == (path.suffix == ".sh")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_pass_shellcheck(script: Path) -> None:
    """For bash everywhere, and for shellcheck where it is installed (.ci/run sees to that)."""
    subprocess.run(["bash", "-n", script], check=True, timeout=30)
    if shutil.which("shellcheck"):
        ended = subprocess.run(
            ["shellcheck", "-x", script], capture_output=True, text=True, check=False, cwd=ROOT
        )
        assert ended.returncode == 0, ended.stdout


@pytest.mark.contract("S2-24", "S2-25")
def test_the_cluster_for_maps_is_made_and_its_workers_named_in_order() -> None:
    text = dry("cluster/setup-cluster.sh")
    in_order(
        text,
        "# needs: docker kind kubectl",
        "kind create cluster --name gpu-scheduler-cluster --config cluster/kind-config.yaml",
        "wait --for=condition=Ready nodes --all --timeout=300s",
        "label node gpu-scheduler-cluster-worker gpu-node-name=node1",
        "label node gpu-scheduler-cluster-worker4 gpu-node-name=node4",
    )


@pytest.mark.contract("S2-24", "S2-30")
def test_local_deployment_builds_loads_and_installs_both_charts() -> None:
    in_order(
        dry("scripts/deploy-local.sh"),
        f"docker build --tag gpu-scheduler:{VERSION}",
        f"kind load docker-image gpu-scheduler:{VERSION} --name gpu-scheduler-cluster",
        f"docker build --tag gpu-scheduler-check:{VERSION}",
        "helm upgrade --install gpu-scheduler charts/gpu-scheduler",
        "helm upgrade --install gpu-test charts/gpu-scheduler-check",
        "logs",
    )


@pytest.mark.contract("S0-9", "S0-11", "S0-13")
def test_setup_runs_the_seed_steps_in_order() -> None:
    in_order(
        dry("scripts/setup-cluster.sh"),
        "# needs: docker kind kubectl helm",
        "kind create cluster --name gpu-sim-cluster --config config/kind-gpu-cluster.yaml",
        "wait --for=condition=Ready nodes --all --timeout=300s",
        "helm upgrade --install gpu-operator charts/fake-gpu-operator --namespace gpu-operator",
        "--values config/fake-gpu-values.yaml",
        *(
            word
            for pool in ("small", "medium")
            for word in (
                f"kubectl label nodes --selector node-pool={pool} --overwrite",
                f"run.ai/simulated-gpu-node-pool={pool}",
                "node-role.kubernetes.io/runai-dynamic-mig=true",
                "node-role.kubernetes.io/runai-mig-enabled=true",
                "nvidia.com/gpu.product=NVIDIA-H200\n",
            )
        ),
        "wait --for=condition=Ready pods --all --namespace gpu-operator --timeout=300s",
        "run.ai/mig.config=",
        "custom-columns",
    )


@pytest.mark.contract("S0-14")
def test_the_webhook_is_registered_after_it_answers() -> None:
    in_order(
        dry("webhook/scripts/build-and-deploy.sh"),
        f"docker build --tag gpu-webhook:{VERSION}",
        f"kind load docker-image gpu-webhook:{VERSION} --name gpu-sim-cluster",
        "webhook-tls-secret.yaml",
        "00-namespace.yaml",
        "01-rbac.yaml",
        "02-service.yaml",
        "03-deployment.yaml",
        "wait --for=condition=Available deployment/gpu-webhook --timeout=120s",
        "04-webhook-config-patched.yaml",
    )


@pytest.mark.contract("S0-3", "S0-5", "S0-10")
def test_the_layouts_of_the_script_are_those_of_the_simulated_cards() -> None:
    """Read by the fake operator's own code: 28 small slices, and 12 medium with 4 small ones."""
    found = re.findall(
        r"run\.ai/mig\.config=(version.*?)'", dry("scripts/configure-mig-profiles.sh")
    )
    values = (ROOT / "config/fake-gpu-values.yaml").read_text(encoding="utf-8")
    pools = read_topology(values).pools
    counts = []
    for text, pool in zip(found, ("small", "medium"), strict=True):
        layouts = read(text.encode().decode("unicode_escape"), pools[pool].gpu_models)
        names = [name for layout in layouts for name, _start in layout or ()]
        counts.append({name: names.count(name) for name in set(names)})
    assert counts == [{"1g.10gb": 28}, {"2g.20gb": 12, "1g.10gb": 4}]


@pytest.mark.contract("S0-12", "S3-9")
def test_make_has_the_seeds_targets() -> None:
    """In cluster/; the repository's own Makefile passes them on, but for `clean`."""
    wanted = {
        "help",
        "setup",
        "deploy-webhook",
        "test",
        "verify",
        "logs-webhook",
        "logs-operator",
        "clean-workloads",
        "clean",
        "all",
    }
    text = (ROOT / "cluster/Makefile").read_text(encoding="utf-8")
    assert wanted <= set(re.findall(r"^([a-z-]+):.* ## ", text, re.MULTILINE))
    root = (ROOT / "Makefile").read_text(encoding="utf-8")
    passed_on = set(re.findall(r"^([a-z-]+):.* ## ", root, re.MULTILINE))
    assert wanted | {"clean-cluster"} <= passed_on
    assert "kind delete cluster --name" in text


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        pytest.param("setup", "+ kind create cluster --name gpu-sim-cluster", id="setup"),
        pytest.param("deploy-webhook", "+ kind load docker-image", id="deploy-webhook"),
        pytest.param("test", "+ kubectl apply -f", id="test"),
        pytest.param("verify", "+ kubectl get nodes", id="verify"),
        pytest.param("logs-webhook", "+ kubectl logs --namespace gpu-webhook", id="logs-webhook"),
        pytest.param("logs-operator", "+ kubectl logs --namespace gpu-op", id="logs-operator"),
        pytest.param("clean-workloads", "+ kubectl delete", id="clean-workloads"),
        pytest.param("clean", "+ kind delete cluster --name gpu-sim-cluster", id="clean"),
        pytest.param("maps-cluster", "+ helm upgrade --install gpu-test", id="maps-cluster"),
    ],
)
@pytest.mark.contract("S0-12")
def test_a_target_of_the_local_clusters_prints_what_it_would_do(
    tmp_path: Path, target: str, shown: str
) -> None:
    """And calls none of the programs that would do it."""
    for name in ("docker", "kind", "kubectl", "helm"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/{name}-called\n")
        (tmp_path / name).chmod(0o755)
    ended = subprocess.run(
        ["make", "-s", "-C", "cluster", target],
        cwd=ROOT,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "DRY_RUN": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert shown in ended.stdout + ended.stderr
    assert list(tmp_path.glob("*-called")) == []


@pytest.mark.contract("S0-15", "S0-33")
def test_the_test_workloads_ask_for_mig() -> None:
    """And those of the Deployment are found by ``-l app=gpu-test``."""
    found = {}
    labels = {}
    for path in (ROOT / "manifests/test-pods").glob("*.yaml"):
        for each in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            spec = each["spec"].get("template", each).get("spec")
            (container,) = spec["containers"]
            found[each["kind"], each["metadata"]["name"]] = container
            template = each["spec"].get("template", each)
            labels[each["metadata"]["name"]] = template.get("metadata", {}).get("labels", {})
    assert {
        ("Pod", "test-medium-gpu"),
        ("Pod", "test-small-gpu"),
        ("Deployment", "test-gpu-deployment"),
        ("Job", "test-gpu-job"),
    } <= set(found)
    assert labels["test-gpu-deployment"]["app"] == "gpu-test"
    assert found["Job", "test-gpu-job"]["command"] == ["nvidia-smi"]
    for container in found.values():
        assert all(name.startswith("nvidia.com/mig-") for name in container["resources"]["limits"])


@pytest.mark.parametrize(
    "script",
    [
        "cluster/setup-cluster.sh",
        "scripts/setup-cluster.sh",
        "scripts/deploy-local.sh",
        "webhook/scripts/build-and-deploy.sh",
    ],
)
@pytest.mark.contract("S0-31")
def test_missing_tool_is_named_before_any_step(script: str, tmp_path: Path) -> None:
    """All of it in one line, not one program after the other."""
    for name in ("bash", "dirname", "basename", "env"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    ended = subprocess.run(
        [ROOT / script], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert re.fullmatch(r"[\w-]+\.sh: install these first: docker kind kubectl.*\n", ended.stderr)
    assert ended.stdout == ""


def test_external_ci_step_installs_everything_in_an_existing_cluster() -> None:
    """Workers get the pools in order; the last pool is for all that remain."""
    text = dry("scripts/fake-gpus-in-kind.sh", CLUSTER="mine", POOLS="mig whole")
    in_order(
        text,
        "# needs: docker kind kubectl helm",
        "use-context kind-mine",
        f"kind load docker-image gpu-scheduler:{VERSION} --name mine",
        f"kind load docker-image gpu-scheduler-check:{VERSION} --name mine",
        "helm upgrade --install gpu-operator charts/fake-gpu-operator",
        "--values examples/cluster/fake-gpu-values.yaml --wait",
        "label node mine-worker --overwrite run.ai/simulated-gpu-node-pool=mig gpu-node-name=node1",
        "label node mine-worker2 --overwrite run.ai/simulated-gpu-node-pool=whole",
        "label node mine-worker4 --overwrite run.ai/simulated-gpu-node-pool=whole",
        "helm upgrade --install gpu-scheduler charts/gpu-scheduler",
        "wait node/mine-worker node/mine-worker2",
    )
    assert "kind create" not in text
    assert "docker" not in dry("scripts/fake-gpus-in-kind.sh", BUILD="")


def test_the_action_runs_the_script_with_its_inputs() -> None:
    action = yaml.safe_load((ROOT / ".github/actions/fake-gpus/action.yml").read_text())
    (step,) = action["runs"]["steps"]
    wanted = {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]}
    folder = ROOT / ".github/actions/fake-gpus"
    script = step["run"].rpartition("$GITHUB_ACTION_PATH")[2].strip().strip('"')

    assert action["runs"]["using"] == "composite"
    assert set(step["env"].values()) == wanted
    assert Path(f"{folder}{script}").resolve() == ROOT / "scripts/fake-gpus-in-kind.sh"
    ended = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        env={
            "PATH": os.environ["PATH"],
            "DRY_RUN": "1",
            "GITHUB_ACTION_PATH": str(folder),
            "GITHUB_WORKSPACE": "/workspace",
            "CLUSTER": "kind",
            "POOLS": "whole",
            "OWN_VALUES": "mine.yaml",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--values /workspace/mine.yaml" in ended.stdout
