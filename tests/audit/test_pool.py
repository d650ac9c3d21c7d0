import signal
import threading
from concurrent.futures import ProcessPoolExecutor

import pytest

from discreet.audit.pool import process_pool


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_process_pool__workers_never_hear_control_c_and_we_do(start):
    # Blocked when they are born: one that was still importing printed a traceback.
    with process_pool(1, start) as pool:
        inherited = pool.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result()
        assert signal.SIGINT in inherited
        assert pool.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.fixture
def hears_control_c():
    """Processes that run tests for others may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears_control_c")
def test_process_pool__control_c_waits_until_a_process_has_started(monkeypatch):
    # One that was started and then told nothing printed a traceback, too.
    now = threading.Event()
    started = []

    def interrupts():
        now.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # our thread blocks it

    other = threading.Thread(target=interrupts)
    other.start()

    def submit(*_):
        now.set()
        other.join()
        started.append(True)

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
    with pytest.raises(KeyboardInterrupt), process_pool(1) as pool:
        pool.submit(abs)
    assert started == [True]
