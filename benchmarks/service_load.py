"""A load generator in a process of its own: requests over some connections, each sent when the
answer to the last one has come. Reads a job as JSON from stdin, prints what it saw as JSON."""

import asyncio
import json
import sys
import time
from collections import Counter

import uvloop


class Caller(asyncio.Protocol):
    """One connection that is never idle until the bodies or the time run out."""

    def __init__(self, job: "Job") -> None:
        self.job = job
        self.ended = asyncio.get_running_loop().create_future()
        self.buffer = b""
        self.sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        request = self.job.next()
        if request is None:
            self.transport.close()
            self.ended.set_result(None)
            return
        self.sent_at = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        at = head.index(b"content-length: ") + 16
        stop = head.find(b"\r", at)
        length = int(head[at : None if stop < 0 else stop])
        if len(self.buffer) < end + 4 + length:
            return
        body = self.buffer[end + 4 :]
        self.buffer = b""
        self.job.answered(head[9:12].decode(), body, time.perf_counter() - self.sent_at)
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(error or ConnectionError("the server closed a connection"))


class Job:
    """What to send, and what came back."""

    def __init__(self, port, path, key, bodies, connections, seconds, warm=0.3, keep=False):
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"
            "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n"
        )
        self.port, self.connections, self.seconds, self.warm = port, connections, seconds, warm
        self.requests = [(head.format(len(b.encode())) + b).encode() for b in bodies]
        self.again = len(bodies) == 1
        self.kept = [] if keep else None
        self.at = 0
        self.statuses = Counter()
        self.answers = Counter()
        self.times = []

    def next(self):
        if time.perf_counter() > self.until or (not self.again and self.at >= len(self.requests)):
            return None
        self.at += 1
        return self.requests[0 if self.again else self.at - 1]

    def answered(self, status, body, seconds):
        now = time.perf_counter()
        self.statuses[status] += 1
        if self.kept is not None:
            self.kept.append(body.decode())
        elif len(body) < 40:
            self.answers[body.decode()] += 1
        if now >= self.begun + self.warm:
            self.times.append(seconds)
            self.last = now

    async def run(self):
        loop = asyncio.get_running_loop()
        self.begun = self.last = time.perf_counter()
        self.until = self.begun + self.warm + self.seconds
        callers = []
        for _ in range(self.connections):
            callers.append(
                (await loop.create_connection(lambda: Caller(self), "127.0.0.1", self.port))[1]
            )
        await asyncio.gather(*(caller.ended for caller in callers))
        times = sorted(self.times)
        return {
            "rate": len(times) / max(self.last - self.begun - self.warm, 1e-9),
            "p50": times[len(times) // 2] if times else None,
            "p99": times[int(len(times) * 0.99)] if times else None,
            "requests": sum(self.statuses.values()),
            "statuses": self.statuses,
            "answers": self.answers,
            "kept": self.kept,
        }


if __name__ == "__main__":
    uvloop.install()
    print(json.dumps(asyncio.run(Job(**json.load(sys.stdin)).run())))
