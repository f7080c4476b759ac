"""A broker that the tests of this folder may kill."""

from collections.abc import Iterator

import pytest
from chaos_site import Site, running_site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running_site() as site:
        yield site
