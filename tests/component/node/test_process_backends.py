"""Both ways to run process pods: what commands and attached terminals of a container hear, say and return."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ome.local.node.process.backend import Backend, Command, Launch
from ome.local.node.process.framing import read_frame, write_frame
from ome.local.node.process.isolated import IsolatedBackend
from ome.local.node.process.plain import PlainBackend
from ome.local.node.process.rootfs import Mount
from ome.local.node.process.volumes import TOKEN_FOLDER

UID = "0001"
KEY = f"{UID}/c"
ENVIRONMENT = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
LIMIT = 120.0


class Bench:
    """A backend with one pod, and the ends it told of."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.backend = backend
        self.log = folder / "c.log"
        self.exits: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
        backend.on_exit = lambda key, code: self.exits.put_nowait((key, code))

    async def start(self, script: str, *, stdin: bool = False, once: bool = False, tty: bool = False) -> None:
        await self.backend.prepare(UID, "198.18.1.1", "pod")
        argv = ["sh", "-c", script]
        await self.backend.start(Launch(UID, "c", argv, ENVIRONMENT, self.log, stdin=stdin, stdin_once=once, tty=tty))

    async def run(self, script: str, *, tty: bool = False) -> Command:
        return await self.backend.command(KEY, ["sh", "-c", script], ENVIRONMENT, "", tty=tty)

    def logged(self) -> list[str]:
        return [line.partition(" ")[2] for line in self.log.read_text().splitlines()]


async def heard(command: Command, *, until: str = "") -> tuple[dict[int, str], int | None]:
    """What came on each channel, until a text came or the end; and the exit code."""
    said: dict[int, bytes] = {}
    while frame := await read_frame(command.reader):
        channel, data = frame
        if channel == 3:
            return {key: text.decode() for key, text in said.items()}, int(data.split()[0])
        said[channel] = said.get(channel, b"") + data
        if until and until.encode() in said[channel]:
            break
    return {key: text.decode() for key, text in said.items()}, None


Scenario = Callable[[Bench], Awaitable[None]]


def in_both(scenario: Scenario) -> Callable[..., None]:
    """Run a scenario with the isolated and with the plain backend."""

    @pytest.mark.parametrize("way", ["isolated", "plain"])
    @functools.wraps(scenario)
    def test(way: str, tmp_path: Path) -> None:
        async def body() -> None:
            deep = tmp_path / ("deep" * 40)  # deeper than the kernel lets the path of a socket be
            backend = IsolatedBackend(deep) if way == "isolated" else PlainBackend()
            if isinstance(backend, IsolatedBackend):
                try:
                    await backend.open(None)
                except OSError as error:
                    pytest.skip(f"this kernel does not isolate: {error}")
            try:
                async with asyncio.timeout(LIMIT):
                    await scenario(Bench(backend, tmp_path))
            finally:
                await backend.close()

        asyncio.run(body())

    del test.__wrapped__
    return test


@in_both
async def test_a_command_returns_its_outputs_and_its_exit_code(bench: Bench) -> None:
    await bench.start("sleep 60")
    command = await bench.run("echo out; echo error >&2; exit 7")
    assert await heard(command) == ({1: "out\n", 2: "error\n"}, 7)


@in_both
async def test_a_command_ended_by_a_signal_returns_128_and_the_signal(bench: Bench) -> None:
    await bench.start("sleep 60")
    assert (await heard(await bench.run("kill -9 $$")))[1] == 137


@in_both
async def test_a_command_reads_its_input_to_the_end(bench: Bench) -> None:
    await bench.start("sleep 60")
    command = await bench.run("cat; echo done")
    await write_frame(command.writer, 0, b"typed ")
    await write_frame(command.writer, 0, b"text ")
    await write_frame(command.writer, 0, b"")
    assert await heard(command) == ({1: "typed text done\n"}, 0)


@in_both
async def test_a_command_that_reads_nothing_holds_up_nobody(bench: Bench) -> None:
    await bench.start("sleep 60")
    deaf = await bench.run("sleep 60")
    for _ in range(64):
        deaf.writer.write(b"\0" + (65536).to_bytes(4, "big") + b"x" * 65536)
    assert (await heard(await bench.run("echo still here")))[0] == {1: "still here\n"}


@in_both
async def test_what_a_command_leaves_running_does_not_keep_it_open(bench: Bench) -> None:
    await bench.start("sleep 60")
    assert await heard(await bench.run("sleep 50 & echo gone")) == ({1: "gone\n"}, 0)


@in_both
async def test_who_still_types_when_a_command_ends_hears_its_last_words(bench: Bench) -> None:
    await bench.start("exec sleep 60")
    command = await bench.run("echo last; exit 3")
    await type_after_the_end(command)
    assert await heard(command) == ({1: "last\n"}, 3)


@in_both
async def test_who_still_types_when_a_container_ends_hears_its_last_words(bench: Bench) -> None:
    await bench.start("read line; echo heard $line; exit 4", stdin=True)
    command = await bench.backend.attach(KEY, stdin=True)
    await write_frame(command.writer, 0, b"hello\n")
    assert await bench.exits.get() == (KEY, 4)
    await type_after_the_end(command)
    assert await heard(command) == ({1: "heard hello\n"}, 4)


async def type_after_the_end(command: Command) -> None:
    """Each write would break a connection that was closed on the other side."""
    for data in (b"more", b""):
        await asyncio.sleep(0.3)
        await write_frame(command.writer, 0, data)


@in_both
async def test_a_terminal_has_a_size_and_is_interactive(bench: Bench) -> None:
    await bench.start("sleep 60")
    command = await bench.run("read line; stty size; test -t 0 && test -t 1 && echo terminal $line; exit 3", tty=True)
    await write_frame(command.writer, 4, b'{"Width": 132, "Height": 43}')
    await write_frame(command.writer, 0, b"typed\r")
    said, code = await heard(command)
    assert "43 132\r\nterminal typed\r\n" in said[1]
    assert code == 3


@in_both
async def test_control_c_interrupts_a_command_in_a_terminal(bench: Bench) -> None:
    await bench.start("sleep 60")
    command = await bench.run("echo ready; exec sleep 60", tty=True)
    await heard(command, until="ready")
    await asyncio.sleep(0.2)
    await write_frame(command.writer, 0, b"\x03")
    assert (await heard(command))[1] == 130


@in_both
async def test_a_terminal_that_is_gone_ends_its_command(bench: Bench) -> None:
    await bench.start("sleep 60")
    command = await bench.run("echo $$; exec sleep 61", tty=True)
    said, _ = await heard(command, until="\n")
    pid = int(said[1])
    command.writer.close()
    gone = f"kill -0 {pid} 2>/dev/null || echo gone"
    while (await heard(await bench.run(gone)))[0] != {1: "gone\n"}:
        await asyncio.sleep(0.1)


@in_both
async def test_the_last_words_are_in_the_log_before_the_end_is_told(bench: Bench) -> None:
    await bench.start("for i in $(seq 2000); do echo line $i; done; printf unfinished; exit 3")
    assert await bench.exits.get() == (KEY, 3)
    lines = bench.logged()
    assert (len(lines), lines[-2:]) == (2001, ["line 2000", "unfinished"])


@in_both
async def test_who_attaches_hears_what_is_said_from_then_on_and_the_end(bench: Bench) -> None:
    script = "echo before; while read word && [ $word != go ]; do echo $word; done; echo after; exit 4"
    await bench.start(script, stdin=True)
    while not bench.logged():
        await asyncio.sleep(0.05)
    viewer = await bench.backend.attach(KEY, stdin=False)
    typist = await bench.backend.attach(KEY, stdin=True)
    listening = asyncio.ensure_future(heard(viewer, until="again\n"))
    while not listening.done():
        await write_frame(typist.writer, 0, b"again\n")
        await asyncio.sleep(0.05)
    first, _ = await listening
    await write_frame(typist.writer, 0, b"go\n")
    rest, code = await heard(viewer)
    assert (first[1] + rest[1]).replace("again\n", "") == "after\n"
    assert code == 4
    assert (await heard(typist))[1] == 4
    assert [line for line in bench.logged() if line != "again"] == ["before", "after"]


@in_both
async def test_input_stays_open_after_an_attached_one_leaves_unless_it_is_once(bench: Bench) -> None:
    await bench.start("cat", stdin=True)
    first = await bench.backend.attach(KEY, stdin=True)
    await write_frame(first.writer, 0, b"one\n")
    await heard(first, until="one")
    await write_frame(first.writer, 0, b"")
    first.writer.close()
    second = await bench.backend.attach(KEY, stdin=True)
    await write_frame(second.writer, 0, b"two\n")
    assert await heard(second, until="two") == ({1: "two\n"}, None)


@in_both
async def test_input_that_is_once_ends_with_the_first_who_attached(bench: Bench) -> None:
    await bench.start("cat; echo over", stdin=True, once=True)
    viewer = await bench.backend.attach(KEY, stdin=False)
    viewer.writer.close()
    first = await bench.backend.attach(KEY, stdin=True)
    await write_frame(first.writer, 0, b"one\n")
    await write_frame(first.writer, 0, b"")
    assert await heard(first) == ({1: "one\nover\n"}, 0)


@in_both
async def test_a_container_may_have_a_terminal(bench: Bench) -> None:
    await bench.start("read line; test -t 0 && echo terminal $line", stdin=True, tty=True)
    attached = await bench.backend.attach(KEY, stdin=True)
    await write_frame(attached.writer, 0, b"typed\r")
    said, code = await heard(attached)
    assert "terminal typed\r\n" in said[1]
    assert code == 0
    assert bench.logged()[-1] == "terminal typed"


def test_a_plain_pod_does_without_its_token_but_not_without_its_volumes(tmp_path: Path) -> None:
    async def body() -> None:
        backend = PlainBackend()
        bench = Bench(backend, tmp_path)

        def launch(target: str) -> Launch:
            return Launch(UID, "c", ["echo", "runs"], ENVIRONMENT, bench.log, [Mount(str(tmp_path), target, True)])

        with pytest.raises(OSError, match="volume at /models cannot be mounted"):
            await backend.start(launch("/models"))
        await backend.start(launch(TOKEN_FOLDER))
        assert await bench.exits.get() == (KEY, 0)

    asyncio.run(body())


@in_both
async def test_nothing_of_a_container_outlives_it(bench: Bench) -> None:
    marker = f"6{os.getpid()}"
    await bench.start(f"sleep {marker} & echo ready; read never", stdin=True)
    await bench.run(f"sleep {marker}")
    while len(_sleeping(marker)) < 2:
        await asyncio.sleep(0.05)
    await bench.backend.signal(KEY, 9)
    await bench.exits.get()
    while _sleeping(marker):
        await asyncio.sleep(0.05)


@in_both
async def test_a_killed_supervisor_is_replaced_and_its_containers_are_told_to_have_ended(bench: Bench) -> None:
    backend = bench.backend
    if not isinstance(backend, IsolatedBackend):
        pytest.skip("plain pods have no supervisor")
    await bench.start("sleep 60")
    assert backend._process is not None
    os.kill(backend._process.pid, signal.SIGKILL)
    assert await bench.exits.get() == (KEY, -signal.SIGKILL)
    await bench.start("echo again; sleep 60")  # the pod's network is there again
    assert await heard(await bench.run("hostname")) == ({1: "pod\n"}, 0)
    while bench.logged() != ["again"]:
        await asyncio.sleep(0.05)


def _sleeping(marker: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", marker.encode()]:
            found.append(path.parent.name)
    return found
