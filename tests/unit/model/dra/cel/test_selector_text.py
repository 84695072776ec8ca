"""What is changed in the text of a selector before it is compiled, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.dra.cel.quantities import quantity
from scheduler.model.dra.cel.selector_text import completed
from scheduler.model.dra.cel.versions import semver

EMPTY = ".orValue(dyn({}))"
OPTIONAL = ".or(optional.of(dyn({})))"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('device.attributes["d"].a', f'device.attributes[?"d"]{EMPTY}.a'),
        ("device.capacity['d'].m", f"device.capacity[?'d']{EMPTY}.m"),
        ('d.attributes["d"]["a"]', f'd.attributes[?"d"]{EMPTY}["a"]'),
        ("device . attributes [ x ] . a", f"device . attributes [? x ]{EMPTY} . a"),
        ('device.attributes[?"d"].?a', f'device.attributes[?"d"]{OPTIONAL}.?a'),
        ("device.attributes.d.a", f"device.attributes.?d{EMPTY}.a"),
        ("size(device.attributes.d) == 1", f"size(device.attributes.?d{EMPTY}) == 1"),
        ("has(device.attributes.d.a)", f"has(device.attributes.?d{EMPTY}.a)"),
        ("device.attributes.?d.?a", f"device.attributes.?d{OPTIONAL}.?a"),
        (
            "device.attributes[device.attributes['a'].b].c",
            f"device.attributes[?device.attributes[?'a']{EMPTY}.b]{EMPTY}.c",
        ),
        ("device.attributes[['a]', 'b'][1]].c", f"device.attributes[?['a]', 'b'][1]]{EMPTY}.c"),
        ("device.attributes['d'] // ['e']", f"device.attributes[?'d']{EMPTY} // ['e']"),
        ("device.attributes[r'\\'].a", f"device.attributes[?r'\\']{EMPTY}.a"),
        ("device.attributes['\\''].a", f"device.attributes[?'\\'']{EMPTY}.a"),
        ("device.attributes['''a'b''' ].a", f"device.attributes[?'''a'b''' ]{EMPTY}.a"),
    ],
)
def test_lookup_of_a_domain_is_completed(text: str, expected: str) -> None:
    assert completed(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.isLessThan(b)", '(b"" + a < (b))'),
        ("!d.x[1].y(2).isGreaterThan(b)", '!(b"" + d.x[1].y(2) > (b))'),
        ("1 + (a ? b : c).isLessThan(d)", '1 + (b"" + (a ? b : c) < (d))'),
        ("x in [a, b][0].isLessThan(c)", 'x in (b"" + [a, b][0] < (c))'),
        ("x in (a).isLessThan(c)", 'x in (b"" + (a) < (c))'),
        ("x && a.?b.isLessThan(c)", 'x && (b"" + a.?b < (c))'),
        ("{'a': b}.a.isLessThan(c)", "(b\"\" + {'a': b}.a < (c))"),
        (
            "a.compareTo(b) == 0",
            'cel.bind(_left_, b"" + a, cel.bind(_right_, b,'
            " _left_ < _right_ ? -1 : _left_ > _right_ ? 1 : 0)) == 0",
        ),
        (
            "a.isLessThan(b.isLessThan(c) ? d : e)",
            '(b"" + a < ((b"" + b < (c)) ? d : e))',
        ),
    ],
)
def test_comparison_of_quantities_and_versions_is_an_operator(text: str, expected: str) -> None:
    assert completed(text) == expected


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ('quantity("1Gi")', quantity("1Gi")),
        ("quantity ( '1Gi' )", quantity("1Gi")),
        ('semver("1.2.3-rc.1+b")', semver("1.2.3-rc.1")),
    ],
)
def test_valid_quantity_or_version_is_a_constant(text: str, constant: bytes) -> None:
    assert completed(text) == f'b"{constant.decode()}"'


@pytest.mark.parametrize(
    "text",
    [
        'quantity("1 apple")',
        'quantity("1\\u0047i")',
        "quantity(a)",
        'a.quantity("1")',
        'semver("v1.0", true)',
        "a.isLessThan",
        "isLessThan(a)",
        "a.isLessThan(b",
        "].isLessThan(b)",
        "device.driver == \"device.attributes['d']\"",
        "device.attributes.exists(d, d == 'x')",
        "size(device.attributes) == 1",
        "has(device.attributes)",
        "has(device.attributes.d)",
        "attributes['d']",
        "device.?attributes['d']",
        "'x' in device.attributes && true",
        "device.attributes['d",
        "]))}",
        "",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert completed(text) == text


@given(st.text(alphabet="attributes.[]?'\"\\r/ \nd()", max_size=40))
def test_completion_only_inserts(text: str) -> None:
    rest = iter(completed("device.attributes" + text))

    assert all(character in rest for character in "device.attributes" + text)
