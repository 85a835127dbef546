"""Texts for the tests: compilers' own, cut down, from `data/`, and small ones built here.

`data/` holds what JAX 0.10.2 wrote for a TPU v5e:2x4 (libtpu 0.0.42.1) and for 8 H100. `megatron`: a
training step of two layers `h + relu(h @ w1) @ w2`, bf16[512,2048], over data=2 model=4 with batch 1024.
`fsdp`: six such layers in a checkpointed scan, over 8 devices. `misc`: one of each collective in a shard_map
over data=2 model=4. Left out are attributes, and bodies of fusions, that no test reads.
"""

from pathlib import Path

from meshwright.cost_models.hlo import HloModule, parse_module

DATA = Path(__file__).parent / "data"


def text(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


def module(name: str) -> HloModule:
    return parse_module(text(name))


def program(body: str, before: str = "", partitions: int = 8) -> HloModule:
    """A module whose entry is `body`, one instruction a line, after the computations `before`."""
    head = f"HloModule m, is_scheduled=true, num_partitions={partitions}\n\n"
    return parse_module(head + before + "\nENTRY %main (p: f32[4]) -> f32[4] {\n" + body + "\n}\n")


ADD = """
%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}
"""


def loop(step: str, condition: str, inside: str = "", name: str = "") -> str:
    """Computations `%body{name}` and `%cond{name}` of a loop that carries (s32[], f32[4])."""
    return f"""
%body{name} (b: (s32[], f32[4])) -> (s32[], f32[4]) {{
  %b{name} = (s32[], f32[4]{{0}}) parameter(0)
  %i{name} = s32[] get-tuple-element(%b{name}), index=0
  %v{name} = f32[4]{{0}} get-tuple-element(%b{name}), index=1
  %step{name} = s32[] constant({step})
  %next{name} = s32[] add(%i{name}, %step{name})
{inside}
  ROOT %out{name} = (s32[], f32[4]{{0}}) tuple(%next{name}, %v{name})
}}

%cond{name} (c: (s32[], f32[4])) -> pred[] {{
  %c{name} = (s32[], f32[4]{{0}}) parameter(0)
  %j{name} = s32[] get-tuple-element(%c{name}), index=0
  %bound{name} = s32[] constant({condition.split()[1]})
  ROOT %test{name} = pred[] compare(%j{name}, %bound{name}), direction={condition.split()[0]}
}}
"""


def while_text(start: str, name: str = "", value: str = "p") -> str:
    """The loop of `loop`, as lines of a computation that has f32[4] `%value`."""
    return f"""  %start{name} = s32[] constant({start})
  %init{name} = (s32[], f32[4]{{0}}) tuple(%start{name}, %{value})
  %while{name} = (s32[], f32[4]{{0}}) while(%init{name}), condition=%cond{name}, body=%body{name}"""
