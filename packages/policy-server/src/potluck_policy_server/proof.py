"""What the service proves before an answer leaves: the weights that answered are the ones that were asked for.

check_read      what a backbone made of an upload holds the upload's bytes, so a publish cannot silently do nothing
check_answer    the weights that the engine found at work are the request's, so a swap in mid-flight cannot pass

`lm/proof.py` has the guards inside the language model engines. Each is shown to matter by a test that injects the fault
it is for and removes it.
"""

from __future__ import annotations

from potluck_policy_server.backbones.base import Adapter, Upload
from potluck_policy_server.errors import WrongWeights
from potluck_policy_server.safefile import file_content


def check_read(upload: Upload, adapter: Adapter) -> None:
    """Raises WrongWeights unless the adapter is named by the upload and holds the upload's tensors."""
    if adapter.digest != upload.digest:
        raise WrongWeights("the upload was stored under another name", upload.digest, adapter.digest)
    wanted = file_content(upload.data)
    if adapter.content != wanted:
        message = f"the upload {upload.digest[:16]} did not arrive: other tensors are held under its name"
        raise WrongWeights(message, wanted, adapter.content)


def check_answer(asked: Adapter | None, served: str) -> None:
    """Raises WrongWeights unless an answer was computed with the adapter that was asked for."""
    wanted = asked.digest if asked else ""
    if served != wanted:
        message = f"{wanted[:16] or 'the frozen base'} was asked for, {served[:16] or 'the frozen base'} has answered"
        raise WrongWeights(message, wanted, served)
