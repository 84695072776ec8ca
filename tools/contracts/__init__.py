"""Maps the contracts of the seed systems to tests: the source of docs/contracts.md.

The rows are data (rows.yaml), the tests name them with ``@pytest.mark.contract``. The page is
written by ``python -m tools.contracts`` and never by hand; a unit test compares the two.
"""
