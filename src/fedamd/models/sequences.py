"""Networks for text: sequences of tokens (B, T) to the scores of the next one, after the last token or after each.

They are written out in operations that a stack of models can run at once; PyTorch's own LSTM cannot be stacked.
"""

import math

import torch
from torch import Tensor, nn


class _LSTM(nn.Module):
    """One layer, with one bias a gate: (B, T, inputs) to (B, T, states)."""

    def __init__(self, inputs: int, states: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(states)
        self.inputs = nn.Linear(inputs, 4 * states)  # input, forget, candidate and output gate
        self.states = nn.Linear(states, 4 * states, bias=False)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, values: Tensor) -> Tensor:
        driven = self.inputs(values)
        state = memory = torch.zeros_like(driven[:, 0, : self.states.in_features])
        states: list[Tensor] = []
        for step in driven.unbind(1):
            take, keep, candidate, show = (step + self.states(state)).chunk(4, -1)
            memory = keep.sigmoid() * memory + take.sigmoid() * candidate.tanh()
            state = show.sigmoid() * memory.tanh()
            states.append(state)
        return torch.stack(states, 1)


class CharLSTM(nn.Module):
    """LEAF's network for Shakespeare: characters in 8 dimensions, two LSTM layers of 256, one linear layer.

    817,872 parameters for LEAF's 80 characters, 820,522 for the 90 symbols of TensorFlow Federated.
    """

    def __init__(self, symbols: int, every_token: bool, embedding: int = 8, states: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, embedding)
        self.layers = nn.Sequential(_LSTM(embedding, states), _LSTM(states, states))
        self.head = nn.Linear(states, symbols)
        self._every_token = every_token

    def forward(self, tokens: Tensor) -> Tensor:
        states: Tensor = self.layers(self.embedding(tokens))
        scores: Tensor = self.head(states if self._every_token else states[:, -1])
        return scores


class _Attention(nn.Module):
    """Every token looks at itself and at those before it."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.seen = nn.Linear(width, 3 * width)
        self.result = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self._heads = heads
        nn.init.xavier_uniform_(self.seen.weight)
        for bias in (self.seen.bias, self.result.bias):
            nn.init.zeros_(bias)

    def forward(self, values: Tensor) -> Tensor:
        batch, length, width = values.shape
        parts = self.seen(values).view(batch, length, 3, self._heads, width // self._heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self._heads)
        later = torch.ones(length, length, dtype=torch.bool, device=values.device).triu(1)
        shares = self.dropout(scores.masked_fill(later, -math.inf).softmax(-1))
        result: Tensor = self.result((shares @ value).transpose(1, 2).reshape(batch, length, width))
        return result


class _Layer(nn.Module):
    """Attention, then two linear layers for each token, each with a shortcut and normalised."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = nn.Sequential(_Attention(width, heads, dropout), nn.Dropout(dropout))
        self.tokenwise = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width), nn.Dropout(dropout)
        )
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, values: Tensor) -> Tensor:
        values = self.norms[0](values + self.attention(values))
        result: Tensor = self.norms[1](values + self.tokenwise(values))
        return result


class Transformer(nn.Module):
    """The language model of pfl-research's Stack Overflow benchmark, its embedding shared between input and output.

    Three layers of width 96 with 8 heads and 1536 hidden units: 1,962,912 parameters for 10,004 words.
    """

    def __init__(
        self,
        words: int,
        every_token: bool,
        width: int = 96,
        heads: int = 8,
        hidden: int = 1536,
        layers: int = 3,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        nn.init.uniform_(self.embedding.weight, -0.05, 0.05)
        self.layers = nn.Sequential(*(_Layer(width, heads, hidden, dropout) for _ in range(layers)))
        self._every_token = every_token

    def forward(self, tokens: Tensor) -> Tensor:
        width = self.embedding.embedding_dim
        values = self.embedding(tokens) * math.sqrt(width)
        values = self.layers(values + _places(tokens.shape[1], width, values))
        scores: Tensor = (values if self._every_token else values[:, -1]) @ self.embedding.weight.T
        return scores


def _places(length: int, width: int, like: Tensor) -> Tensor:
    """Sines and cosines of wavelengths from 2π to 10,000·2π, by which a token's place is known (T, width)."""
    place = torch.arange(length, device=like.device, dtype=like.dtype).unsqueeze(1)
    rates = torch.exp(torch.arange(0, width, 2, device=like.device, dtype=like.dtype) * (-math.log(10_000.0) / width))
    return torch.stack([(place * rates).sin(), (place * rates).cos()], -1).flatten(1)
