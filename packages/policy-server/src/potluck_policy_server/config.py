"""Settings of the policy server. Importing this loads no model code."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ServeConfig(BaseModel):
    """Everything that `potluck-policy serve` can be told."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    backbone: str = "tiny"
    """Name of an installed backbone (tiny, smollm2-135m, tabular, uniform, scripted), a folder with config.json and
    safetensors files, a GGUF file, a hub id such as Qwen/Qwen3-4B-Instruct-2507, openai:MODEL, or vllm:MODEL."""
    bind: str = "127.0.0.1:0"
    """host:port to listen on; port 0 takes a free one. Other hosts than loopback need TLS and a token."""
    threads: int = Field(default=1, ge=1, le=256)
    """Threads of matrix products, fixed at start. One per process is fastest where other processes are busy."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Type of the frozen base and of adapters in use. float32 is right on CPUs without fast bfloat16."""
    device: str = "cpu"
    """Where the model runs: cpu, cuda, cuda:1, ..."""
    context: int = Field(default=0, ge=0)
    """Longest prompt in tokens; 0 = the model's own limit."""
    engine: Literal["auto", "packed", "peft"] = "auto"
    """How menus are scored: `packed` (Llama, Mistral, Qwen2, Qwen3) or `peft` (any architecture); `auto` takes packed
    where it is known and agrees with transformers."""
    label_mass: bool = True
    """Report the full-vocabulary probability of the offered labels with every decision."""
    samples: int = Field(default=16, ge=1, le=1024)
    """Texts drawn per decision where a remote model (openai:MODEL) lists no log-probabilities."""
    prefix_memory: int = Field(default=256, ge=1)
    """MiB for keys and values of rules that were read already."""
    reuse_memory: int = Field(default=256, ge=0)
    """MiB for keys and values of states that were read already: a prompt that begins like an earlier one of the same
    adapter is computed from where they part. 0 = off."""
    pack_memory: int = Field(default=1024, ge=0)
    """A base of at most this many MiB in float32 is kept a second time, laid out for fast products (CPU only)."""
    deterministic: bool = True
    """A decision's bits depend on the decision and its weights alone, whatever else is computed with it or was before.
    Off: attention is a little faster, and the last bits of float32 may differ."""
    adapter_memory: int = Field(default=1024, ge=1)
    """MiB for adapters."""
    lease_seconds: int = Field(default=1800, ge=1)
    """Default time to live of a lease."""
    max_batch: int = Field(default=512, ge=1)
    """Most decisions in one request, and in one merged batch."""
    max_queue: int = Field(default=4096, ge=1)
    """Decisions that may wait. Beyond them requests are refused as OVERLOADED, those of the client with most first;
    streams are held back."""
    max_in_flight: int = Field(default=64, ge=1)
    """Unanswered batches of one stream; beyond them nothing is read from it."""
    merge_below: int = Field(default=8, ge=1)
    """Requests of at least this many decisions fill the machine and are computed alone. 1 = never merge requests."""
    window_ms: float = Field(default=1.5, ge=0)
    """How long a small request waits for company when several clients are active."""
    trace_decisions: float = Field(default=0.02, ge=0, le=1)
    """Share of decisions that get a span of their own."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Logs go to standard error."""
