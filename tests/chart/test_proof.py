"""Tests the launcher's checks with complete and incomplete real logs."""

import sys
import unittest

from world import FLOW, ROOT

sys.path.insert(0, str(FLOW / "chart" / "files"))
import proof  # noqa: E402

LOGS = ROOT / "tests" / "data" / "nccl" / "h200"
TEST = {"min_bytes": 1 << 20, "max_bytes": 1 << 30, "step_factor": 2}


class Proof(unittest.TestCase):
    def test_tables_of_real_runs_are_complete(self):
        logs = sorted(LOGS.glob("healthy-*.log"))
        self.assertEqual(len(logs), 5)
        for log in logs:
            self.assertIsNone(proof.table(log.read_text(), TEST), log)

    def test_each_missing_row_is_reported(self):
        lines = (LOGS / "healthy-1.log").read_text().splitlines()
        for n, line in enumerate(lines):
            problem = proof.table("\n".join(lines[:n] + lines[n + 1:]), TEST)
            needed = (line.split() or "#")[0].isdigit() or "Avg bus bandwidth" in line
            self.assertEqual(problem is not None, needed, line)

    def test_a_row_after_another_ranks_text_is_found(self):
        lines = (LOGS / "healthy-1.log").read_text().splitlines(keepends=True)
        row = next(n for n, line in enumerate(lines) if line.split()[0].isdigit())
        for before in ("[1,0]<stdout>:", "vm:10:20 [0] NCCL INFO Connected all rings"):
            self.assertIsNone(proof.table("".join([*lines[:row], before, *lines[row:]]), TEST))

    def test_the_efficiency_is_relative_to_the_line_rate(self):
        text = (LOGS / "healthy-1.log").read_text()
        rows = [line.split() for line in text.splitlines() if line.split() and line.split()[0].isdigit()]
        best = max(max(float(row[7]), float(row[11])) for row in rows)
        found = proof.efficiency(text, "all_gather", 16, 2, 400)
        self.assertEqual((found["best_busbw"], found["permitted_busbw"]), (best, 400))
        self.assertEqual(found["efficiency_percent"], round(best / 4, 1))
        self.assertIn(str(found["at_bytes"]), [row[0] for row in rows])
        # Two nodes exchange half of the message: 400 * 15/16 * 2.
        self.assertEqual(proof.efficiency(text, "all_reduce", 16, 2, 400)["permitted_busbw"], 750)
        self.assertIsNone(proof.efficiency("no row", "all_reduce", 16, 2, 400))

    def test_the_sizes_follow_the_range_and_the_step_factor(self):
        self.assertEqual(len(proof.sizes({"min_bytes": 2 << 20, "max_bytes": 16 << 30, "step_factor": 2})), 14)
        self.assertEqual(proof.sizes({"min_bytes": 8, "max_bytes": 100, "step_factor": 3}), [8, 24, 72])
        self.assertEqual(proof.sizes({"min_bytes": 8, "max_bytes": 8, "step_factor": 2}), [8])
        self.assertEqual(len(proof.sizes({"min_bytes": 1, "max_bytes": 10 ** 6, "step_factor": 10})), 7)

    def test_only_gib_on_every_host_is_accepted(self):
        def line(host, network):
            return f"{host}:10:20 [0] NCCL INFO Using network {network}\n"

        names = ["a-0", "a-1"]
        self.assertIsNone(proof.transport(line("a-0", "gIB") + line("a-1", "gIB"), names))
        self.assertIn("none from a-1", proof.transport(line("a-0", "gIB"), names))
        self.assertIn("Socket", proof.transport(line("a-0", "gIB") + line("a-1", "Socket"), names))
        self.assertIn("IB in use", proof.transport(line("a-0", "IB") + line("a-1", "gIB"), names))
        self.assertIn("no RDMA device", proof.transport("x NCCL INFO NET/gIB : No device found.\n", names))
        self.assertIn("cannot load", proof.transport("NCCL WARN Error: network gIB not found.\n", names))
        # mpirun sometimes joins two lines.
        glued = "a-0:10:20 [0] NCCL INFO Using network gIB" + line("a-1", "gIB") + "\n" + line("a-1", "gIB")
        self.assertIsNone(proof.transport(glued, names))
        self.assertIsNone(proof.transport("a-0:10:20 [0] NCCL INFO Using network gIB" + line("a-1", "gIB") + "\n", names))
        self.assertEqual(proof.transport(glued.replace("gIB", "Socket"), names), "expected gIB only, found Socket in use")
        self.assertIn("gIBext in use", proof.transport(line("a-0", "gIBext") + line("a-1", "gIB"), names))
        self.assertIn("expected gIB", proof.transport("a-0:10:20 [0] NCCL INFO Using network ", names))
        real = (LOGS / "degraded-socket-only.log").read_text()
        self.assertIsNotNone(proof.transport(real, ["vm"]))

    def test_each_host_must_print_its_name_once_per_gpu(self):
        self.assertIsNone(proof.connectivity("a\n" * 8 + "b\n" * 8, ["a", "b"], 8))
        self.assertIsNone(proof.connectivity("a-1a-10\n\na-10\na-1\n", ["a-1", "a-10"], 2))
        # Open MPI's warnings also contain host names.
        self.assertIsNone(proof.connectivity("a\nA warning\n  Local host: a\nb\n", ["a", "b"], 1))
        self.assertIn("b 7 times", proof.connectivity("a\n" * 8 + "b\n" * 7, ["a", "b"], 8))
        self.assertIn("b 16 times", proof.connectivity("a\n" * 8 + "b\n" * 16, ["a", "b"], 8))


if __name__ == "__main__":
    unittest.main()
