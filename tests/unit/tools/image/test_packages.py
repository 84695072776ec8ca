"""What is left of an installation when it goes into the image."""

from __future__ import annotations

import os
from pathlib import Path

from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.progress import Progress
from tools.image import packages
from tools.image.dockerfile import ROOT
from tools.image.layer import Link


def site(folder: Path) -> Path:
    """An installed package with a program."""
    place = folder / packages.SITE
    (place / "some-1.dist-info").mkdir(parents=True)
    (place / "some.py").write_text("")
    (place / "some-1.dist-info" / "RECORD").write_text(
        "../../../bin/some,sha256=of-our-folder,200\r\nsome.py,sha256=abc,0\r\n"
    )
    return place


def test_program_outside_the_image_is_not_in_its_package_list(tmp_path: Path) -> None:
    """Its first line names the folder in which it was installed, and so would its hash."""
    place = site(tmp_path)

    packages.forget_programs(place)

    record = (place / "some-1.dist-info" / "RECORD").read_text()
    assert record == "some.py,sha256=abc,0\n"


def test_packages_lie_where_the_dockerfile_puts_them(tmp_path: Path) -> None:
    """With an interpreter that is found where the base image has it, and no other program."""
    place = site(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "some").write_text("#!")

    files = packages.packages(tmp_path)

    assert files[f"{packages.HOME}/{packages.SITE}/some.py"] == place / "some.py"
    assert files[f"{packages.HOME}/bin/python"] == Link("/usr/local/bin/python")
    programs = {name for name in files if name.startswith(f"{packages.HOME}/bin/")}
    assert len(programs) == 3
    assert all(isinstance(files[name], Link) for name in programs)


def test_the_image_gets_modules_of_its_own_protos(tmp_path: Path) -> None:
    """What a working tree has generated stays there; typing stubs are not shipped."""
    folder = tmp_path / "product"
    packages._take(ROOT / packages.PROTOS, folder / packages.PROTOS)
    names = {path.name for path in (folder / packages.PROTOS).iterdir()}
    assert not any(name.endswith(packages.GENERATED) for name in names)

    packages.generate(folder, Cache(tmp_path / "cache"), os.environ, Progress())

    protos = {name.removesuffix(".proto") for name in names if name.endswith(".proto")}
    added = {path.name for path in (folder / packages.PROTOS).iterdir()} - names
    assert added == {f"{proto}_pb2.py" for proto in protos}
    assert len(added) == 5
