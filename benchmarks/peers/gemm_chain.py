#!/usr/bin/env python3
"""The bound of a training step: its matrix products, and nothing else, on one GPU.

    gemm_chain.py --shape llama-3.2-1b --tokens 16384,4096 [--layers N] [--seconds S] [--frozen]

Runs forward, input gradient and weight gradient of every matrix at its true shape, in bf16 on random data.
With --frozen there is no weight gradient: the bound of a step that trains adapters alone.
The head runs in chunks of tokens. Weights rotate, so that none stays in the L2. The step is a CUDA graph,
so that launches cost no time. It repeats for S seconds, so that the GPU runs at the clocks that its
power limit sustains. Prints a JSON line for each number of tokens.
"""

import argparse
import json
import math
import time

import torch
from shapes import add_shape_arguments, chosen_shape

HEAD_CHUNK = 4096  # tokens
ROTATED_LAYERS = 4


def random_matrix(rows, columns, scale=1.0):
    return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16).mul_(scale)


class Layer:
    """Buffers of a layer's products. All layers share activations and gradients."""

    def __init__(self, shape, tokens, frozen):
        self.frozen = frozen
        matrices = shape.layer_matrices()
        self.weights = [
            [random_matrix(*matrix, 0.02) for matrix in matrices] for _ in range(ROTATED_LAYERS)
        ]
        self.inputs = [random_matrix(tokens, inputs) for _, inputs in matrices]
        self.outputs = [random_matrix(tokens, outputs) for outputs, _ in matrices]
        self.products = [torch.empty_like(output) for output in self.outputs]
        self.input_gradients = [torch.empty_like(x) for x in self.inputs]
        self.weight_gradients = [torch.empty_like(weight) for weight in self.weights[0]]

    def forward(self, layer):
        for x, weight, y in zip(self.inputs, self.weights[layer % ROTATED_LAYERS], self.products):
            torch.mm(x, weight.t(), out=y)

    def backward(self, layer):
        weights = self.weights[layer % ROTATED_LAYERS]
        for i, gradient in enumerate(self.outputs):  # random, because products of products are not
            torch.mm(gradient, weights[i], out=self.input_gradients[i])
            if self.frozen:
                continue
            torch.mm(gradient.t(), self.inputs[i], out=self.weight_gradients[i])


class Head:
    def __init__(self, shape, tokens, frozen):
        self.frozen = frozen
        rows = min(HEAD_CHUNK, tokens)
        self.weight = random_matrix(shape.vocab, shape.hidden, 0.02)
        self.weight_gradient = torch.zeros_like(self.weight)
        self.x = random_matrix(tokens, shape.hidden)
        self.input_gradient = torch.empty_like(self.x)
        self.logits = torch.empty(rows, shape.vocab, device="cuda", dtype=torch.bfloat16)
        self.gradients = random_matrix(rows, shape.vocab)

    def step(self):
        for begin in range(0, len(self.x), HEAD_CHUNK):
            x = self.x[begin : begin + HEAD_CHUNK]
            gradients = self.gradients[: len(x)]
            torch.mm(x, self.weight.t(), out=self.logits[: len(x)])
            torch.mm(gradients, self.weight, out=self.input_gradient[begin : begin + HEAD_CHUNK])
            if not self.frozen:
                self.weight_gradient.addmm_(gradients.t(), x)


def capture_step(shape, tokens, frozen):
    layer, head = Layer(shape, tokens, frozen), Head(shape, tokens, frozen)

    def step():
        for index in range(shape.layers):
            layer.forward(index)
        head.step()
        for index in reversed(range(shape.layers)):
            layer.backward(index)

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def seconds_a_replay(graph, count):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        graph.replay()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count


def measure(shape, tokens, seconds, frozen):
    graph = capture_step(shape, tokens, frozen)
    estimate = seconds_a_replay(graph, 2)
    seconds_a_replay(graph, math.ceil(seconds / 3 / estimate))
    step_s = seconds_a_replay(graph, math.ceil(seconds / estimate))
    flops = (4 if frozen else 6) * shape.matmul_parameters() * tokens
    return dict(step_s=round(step_s, 6), tok_s=round(tokens / step_s, 1),
                tflops=round(flops / step_s / 1e12, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_shape_arguments(parser)
    parser.add_argument("--seconds", type=float, default=3.0, help="timed, after a third as many to warm up")
    parser.add_argument("--frozen", action="store_true", help="without weight gradients")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    shape = chosen_shape(arguments)
    for tokens in arguments.tokens:
        result = measure(shape, tokens, arguments.seconds, arguments.frozen)
        name = "frozen-gemm-chain" if arguments.frozen else "gemm-chain"
        row = dict(peer=name, shape=arguments.shape, layers=shape.layers, tokens=tokens)
        print(json.dumps(row | result), flush=True)


if __name__ == "__main__":
    main()
