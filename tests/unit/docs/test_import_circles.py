"""No module of the scheduler imports itself through others, under TYPE_CHECKING neither."""

from __future__ import annotations

import graphlib

import grimp


def test_no_import_circle() -> None:
    graph = grimp.build_graph("scheduler", exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}

    assert len(imports) > 100
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError with the circle
