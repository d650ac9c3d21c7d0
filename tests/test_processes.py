import signal

import pytest

from discreet.processes import process_pool


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_process_pool__workers_never_hear_control_c_and_we_do(start):
    # Blocked when they are born: one that was still importing printed a traceback.
    with process_pool(1, start) as pool:
        inherited = pool.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result()
        assert signal.SIGINT in inherited
        assert pool.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
