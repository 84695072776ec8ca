"""What must hold for every map, good or bad."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.gpu.cuda_env import ContainerGpus, device_shares, devices_needed
from scheduler.model.gpu.gpu_map import MapError, parse
from scheduler.model.limits import MAP_INDEX_MAX
from scheduler.model.pods.pod_index import IndexRule, index_of
from scheduler.model.pods.pod_parts import Owner

label = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
node = st.lists(label, min_size=1, max_size=3).map(".".join)
devices = st.lists(st.integers(0, 999_999_999), min_size=1, max_size=8, unique=True)
maps = st.dictionaries(st.integers(0, MAP_INDEX_MAX), st.tuples(node, devices), min_size=1)
blanks = st.sampled_from(["", " ", "\t", "  "])
ends = st.sampled_from(["\n", "\r\n", "\n\n", " \n"])


@given(wanted=maps, data=st.data())
def test_a_written_map_reads_back_whatever_its_blanks(
    wanted: dict[int, tuple[str, list[int]]], data: st.DataObject
) -> None:
    """parse(format(map)) is the map."""

    def pad(text: str) -> str:
        return data.draw(blanks) + text + data.draw(blanks)

    text = "".join(
        f"{pad(str(index))}={pad(name)}:{','.join(pad(str(d)) for d in numbers)}" + data.draw(ends)
        for index, (name, numbers) in wanted.items()
    )
    read = parse(text)

    assert {i: (e.node, list(e.devices)) for i, e in read.entries.items()} == wanted
    assert list(read.indexes) == sorted(wanted)
    assert all(e.value == ",".join(map(str, wanted[i][1])) for i, e in read.entries.items())


@given(st.text(st.sampled_from("01 =:,-.a\n\r\t\u00b2\u0663\u2028\x0b_+"), max_size=40) | st.text())
def test_any_text_is_read_or_refused_with_one_printable_line(text: str) -> None:
    """Nothing else than MapError ever comes out, and what is accepted can be written again."""
    problem = None
    try:
        read = parse(text)
    except MapError as error:
        problem = error
    if problem is not None:
        assert 1 <= problem.line <= text.count("\n") + 1
        assert str(problem).isprintable()
        assert len(str(problem)) < 400
        return
    again = "\n".join(f"{e.index}={e.node}:{e.value}" for e in read.entries.values())
    assert parse(again).entries == read.entries


@given(st.text(), st.sampled_from([None, "Job", "StatefulSet", "ReplicaSet"]))
def test_an_index_is_bounded_or_a_rule(name: str, kind: str | None) -> None:
    """No name crashes it or gives an index outside 31 bits."""
    owner = None if kind is None else Owner(kind, "x", "u")
    index = index_of(name=name, owner=owner, labels={}, annotations={})

    assert isinstance(index, IndexRule) or 0 <= index <= MAP_INDEX_MAX


inits = st.lists(st.builds(ContainerGpus, st.integers(1, 4), st.booleans()))
apps = st.lists(st.builds(ContainerGpus, st.integers(1, 4)))


@given(inits, apps)
def test_shares_cover_the_devices_and_running_containers_never_meet(
    before: list[ContainerGpus], after: list[ContainerGpus]
) -> None:
    """Every container gets its request, and no device is shared by running containers."""
    wants = before + after
    given_devices = tuple(range(100, 100 + devices_needed(wants)))
    shares = device_shares(wants, given_devices)

    assert [len(share) for share in shares] == [want.count for want in wants]
    assert {device for share in shares for device in share} == set(given_devices)
    staying = [
        device
        for want, share in zip(wants, shares, strict=True)
        if not want.ends_early
        for device in share
    ]
    assert len(staying) == len(set(staying))
    for position, want in enumerate(wants):
        if want.ends_early:
            earlier = [
                device
                for other, share in zip(wants[:position], shares, strict=False)
                if not other.ends_early
                for device in share
            ]
            assert not set(earlier) & set(shares[position])
