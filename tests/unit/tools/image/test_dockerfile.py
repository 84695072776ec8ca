"""The Dockerfile is read as an engine would, and whatever is not understood ends the build."""

from __future__ import annotations

import shlex

import pytest

from fakegpu.config import Config
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.go_program import BUILD
from tools.image import dockerfile, packages
from tools.image.build import SMI, SMI_SOURCE
from tools.image.dockerfile import DOCKERFILE, ROOT, Copy, Stage

TEXT = DOCKERFILE.read_text(encoding="utf-8")


def test_a_stage_takes_over_what_its_base_says() -> None:
    stages = dockerfile.read(
        """
        FROM python AS base
        ENV PATH=/a:/b \\
          LANG="C.UTF-8"
        USER 65532:65532
        ENTRYPOINT ["python", "-m"]
        FROM base AS one
        COPY --from=build /opt /opt
        CMD ["one"]
        FROM base AS two
        EXPOSE 80 443
        CMD ["two"]
        """
    )
    base = stages["base"]
    assert stages["one"] == Stage(
        base="base",
        copies=[Copy("build", "/opt", "/opt")],
        environment={"PATH": "/a:/b", "LANG": "C.UTF-8"},
        user="65532:65532",
        entrypoint=["python", "-m"],
        command=["one"],
    )
    assert stages["two"].ports == ["80", "443"]
    assert (base.command, base.copies, base.ports) == ([], [], [])


def test_a_word_that_is_not_known_is_refused() -> None:
    with pytest.raises(ControlPlaneError, match=r"VOLUME /data: .* does not know VOLUME"):
        dockerfile.read("FROM python AS base\nVOLUME /data\n")


def test_the_steps_of_the_dockerfile_are_those_that_are_done_here() -> None:
    packages.check_steps(dockerfile.read(TEXT)["build"])


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        pytest.param("--require-hashes", "", "does not know this step", id="another-step"),
        pytest.param("RUN python -m venv", "# RUN", "steps are missing", id="a-step-less"),
    ],
)
def test_a_dockerfile_that_does_something_else_is_refused(
    before: str, after: str, complaint: str
) -> None:
    assert before in TEXT
    with pytest.raises(ControlPlaneError, match=complaint):
        packages.check_steps(dockerfile.read(TEXT.replace(before, after))["build"])


@pytest.mark.parametrize(
    ("name", "more"),
    [
        pytest.param(
            "gpu-scheduler",
            [Copy(SMI, "/nvidia-smi", Config().node.nvidia_smi)],
            id="with-nvidia-smi-where-the-agent-looks-for-it",
        ),
        pytest.param("gpu-scheduler-check", [], id="check"),
    ],
)
def test_both_images_hold_the_first_stage_and_the_licence(name: str, more: list[Copy]) -> None:
    """The layers that are made here are made of these."""
    stages = dockerfile.read(TEXT)
    shared = [Copy("", "LICENSE", "/LICENSE"), Copy("build", packages.HOME, packages.HOME)]
    assert stages[name].copies == [*shared, *more]
    assert stages[name].steps == []


def test_nvidia_smi_is_built_there_as_it_is_built_here() -> None:
    stage = dockerfile.read(TEXT)[SMI]
    assert [ROOT / copy.source for copy in stage.copies] == [SMI_SOURCE]
    flags = " ".join(shlex.quote(word).replace("'", '"') for word in BUILD)
    assert stage.steps == [f"CGO_ENABLED=0 {flags} -o /nvidia-smi ."]
