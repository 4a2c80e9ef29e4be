# SPDX-License-Identifier: BSD-3-Clause
"""How many threads compute by default: cores, control groups, ranks, variables; made-up trees."""

import os
import subprocess
import sys

import pytest

import cograd as torch

VARIABLES = """COGRAD_NUM_THREADS MKL_NUM_THREADS OMP_NUM_THREADS OMPI_COMM_WORLD_LOCAL_SIZE
MPI_LOCALNRANKS MV2_COMM_WORLD_LOCAL_SIZE LOCAL_WORLD_SIZE SLURM_STEP_TASKS_PER_NODE
SLURM_NODEID""".split()


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def machine(tmp_path):
    """Returns a function that makes files below a root; the root has 16 processors on 8 cores."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    for cpu in range(16):
        siblings = f"{cpu % 8},{cpu % 8 + 8}"
        write(f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", siblings)
    write("sys/devices/system/cpu/online", "0-15")
    write.root = str(tmp_path)
    return write


def threads(machine, processors=range(16)):
    return torch._C._threads_for(machine.root, list(processors))


def test_hyperthreads_of_a_core_count_once(machine):
    assert threads(machine) == (8, "8 cores with 16 hardware threads")
    assert threads(machine, range(8)) == (8, "8 cores")
    assert threads(machine, [0, 8]) == (1, "1 core with 2 hardware threads")
    assert threads(machine, [3, 8, 11])[0] == 2


def test_older_kernels_have_another_name_for_siblings(machine):
    for cpu in range(16):
        folder = f"{machine.root}/sys/devices/system/cpu/cpu{cpu}/topology"
        os.rename(f"{folder}/core_cpus_list", f"{folder}/thread_siblings_list")
    assert threads(machine)[0] == 8


def test_without_a_topology_every_processor_is_a_core(tmp_path):
    assert torch._C._threads_for(str(tmp_path), [0, 1, 5]) == (3, "3 cores")
    assert torch._C._threads_for(str(tmp_path), [0])[0] == 1


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1)]
)
def test_quota_of_a_control_group(machine, quota, expected):
    machine("proc/self/cgroup", "0::/app/job")
    machine("sys/fs/cgroup/app/job/cpu.max", quota)
    number, reason = threads(machine)
    assert number == expected
    assert ("control group" in reason) == (expected != 8)


def test_an_outer_group_limits_too(machine):
    machine("proc/self/cgroup", "0::/app/job")
    machine("sys/fs/cgroup/app/job/cpu.max", "600000 100000")
    machine("sys/fs/cgroup/app/cpu.max", "300000 100000")
    assert threads(machine)[0] == 3


def test_quota_in_a_container_that_sees_the_path_of_the_host(machine):
    machine("proc/self/cgroup", "0::/docker/0123")
    machine("sys/fs/cgroup/cpu.max", "400000 100000")
    assert threads(machine)[0] == 4


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
def test_quota_of_version_1(machine, mount):
    machine("proc/self/cgroup", "5:memory:/\n4:cpu,cpuacct:/docker/0123\n0::/")
    machine(f"sys/fs/cgroup/{mount}/docker/0123/cpu.cfs_quota_us", "200000")
    machine(f"sys/fs/cgroup/{mount}/docker/0123/cpu.cfs_period_us", "100000")
    machine(f"sys/fs/cgroup/{mount}/cpu.cfs_quota_us", "-1")
    machine(f"sys/fs/cgroup/{mount}/cpu.cfs_period_us", "100000")
    assert threads(machine)[0] == 2


@pytest.mark.parametrize(
    "variable", ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"]
)
def test_ranks_divide_the_cores(machine, monkeypatch, variable):
    monkeypatch.setenv(variable, "4")
    number, reason = threads(machine)
    assert number == 2
    assert "4 ranks" in reason and variable in reason
    assert threads(machine, [0, 8])[0] == 1  # bound to a core
    assert threads(machine, range(4))[0] == 2  # bound to half of the machine, as another rank is
    monkeypatch.setenv(variable, "20")
    assert threads(machine)[0] == 1


def test_ranks_divide_what_their_job_has(machine, monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2")
    machine("proc/self/cgroup", "0::/job")
    machine("sys/fs/cgroup/job/cpuset.cpus.effective", "0-3")
    assert threads(machine, range(4))[0] == 2
    machine("sys/fs/cgroup/job/cpu.max", "200000 100000")
    assert threads(machine, range(4))[0] == 1


@pytest.mark.parametrize(("node", "expected"), [("0", 4), ("1", 4), ("2", 2)])
def test_tasks_of_slurm(machine, monkeypatch, node, expected):
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "2(x2),4")
    assert threads(machine)[0] == 8  # not in a step
    monkeypatch.setenv("SLURM_NODEID", node)
    assert threads(machine)[0] == expected


def test_variables_come_first(machine, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    for name, value in [("OMP", "3,2"), ("MKL", "12"), ("COGRAD", "5")]:
        monkeypatch.setenv(f"{name}_NUM_THREADS", value)
        number = int(value.partition(",")[0])
        assert threads(machine) == (number, f"{name}_NUM_THREADS is {number}")
    for name in ("OMP", "MKL", "COGRAD"):
        monkeypatch.setenv(f"{name}_NUM_THREADS", "none")
    assert threads(machine)[0] == 2


@pytest.mark.parametrize("text", ["", "x", "0-", "4-2", "99999999999999999999"])
def test_unreadable_files_do_not_matter(machine, text):
    machine("proc/self/cgroup", f"0::/a\n{text}\n1:2\n")
    machine("sys/fs/cgroup/a/cpu.max", text)
    machine("sys/devices/system/cpu/cpu0/topology/core_cpus_list", text)
    assert 1 <= threads(machine)[0] <= 9


def run(code, **env):
    clean = {k: v for k, v in os.environ.items() if k not in VARIABLES}
    command = [sys.executable, "-c", f"import cograd\n{code}"]
    done = subprocess.run(command, env=clean | env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_process_heeds_all_of_it():
    told = "print(cograd.get_num_threads(), cograd._C._threads_reason())"
    assert run(told, OMP_NUM_THREADS="3") == "3 3: OMP_NUM_THREADS is 3"
    text = run("cograd.set_num_threads(5);" + told, COGRAD_NUM_THREADS="3")
    assert text == "5 5: set_num_threads(5)"
    if hasattr(os, "sched_setaffinity"):
        first = min(os.sched_getaffinity(0))
        bind = f"import os; os.sched_setaffinity(0, [{first}]);"
        assert run(bind + told) == "1 1: 1 core"
