"""The list of what is alive at the peak."""

from meshwright.compiler.display import format_plan


def largest(plans, **memory):
    """Rows of the list, blanks collapsed."""
    fields = {"peak_bytes": 0, "peak_at": "add", "largest": [], "curve_bytes": [], "state_bytes": 0}
    arguments = [plans.array(f"state/layer_{i}/w", (8, 8)) for i in range(3)]
    text = format_plan(plans.build(memory=fields | memory, arguments=arguments))
    rows = text[text.index("largest at the peak") :].split("\n\n")[0].splitlines()[2:]
    return [" ".join(row.split()) for row in rows]


def test_equal_values_are_one_line_and_the_rest_adds_up(plans):
    live = [{"name": "mul at a.py:7", "bytes": 1024, "count": 12}, {"name": "exp at a.py:9", "bytes": 2048}]
    rows = largest(plans, peak_bytes=12 * 1024 + 2048 + 512, largest=live, num_live=20)
    assert rows == ["mul at a.py:7 12 1 KiB 12 KiB", "exp at a.py:9 1 2 KiB 2 KiB", "... more 7 512 B"]


def test_a_list_that_is_whole_needs_no_rest(plans):
    rows = largest(plans, peak_bytes=8, largest=[{"name": "add", "bytes": 8}], num_live=1)
    assert rows == ["add 1 8 B 8 B"]


def test_more_than_fits_is_counted_in_the_rest(plans):
    live = [{"name": f"op{i} at a.py:1", "bytes": 100 - i} for i in range(10)]
    rows = largest(plans, peak_bytes=sum(x["bytes"] for x in live), largest=live, num_live=10)
    assert len(rows) == 9
    assert rows[-1] == "... more 2 183 B"


def test_layers_of_arguments_are_one_line_and_source_lines_are_not(plans):
    live = [{"name": f"state/layer_{i}/w", "bytes": 256} for i in range(3)]
    live += [{"name": f"add at a.py:{i}", "bytes": 64} for i in range(2)]
    rows = largest(plans, peak_bytes=3 * 256 + 128, largest=live, num_live=5)
    assert rows[0] == "state/layer_{0..2}/w 3 256 B 768 B"
    assert [row.split()[2] for row in rows[1:]] == ["a.py:0", "a.py:1"]


def test_a_plan_of_version_1_has_no_count_of_the_rest(plans):
    rows = largest(plans, peak_bytes=4096, largest=[{"name": "add", "bytes": 1024}])
    assert rows == ["add 1 1 KiB 1 KiB", "... more 3 KiB"]
