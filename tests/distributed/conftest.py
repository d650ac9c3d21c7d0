"""A small cluster for all tests of this folder: two worker processes on this machine."""

import pytest
from distributed import Client, LocalCluster


@pytest.fixture(scope="session")
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """A client that is not the default one."""
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture
def everywhere(cluster):
    """The same as the default, which dask collections use."""
    with Client(cluster.scheduler_address) as client:
        client.wait_for_workers(2)
        yield client
