"""Optimizers written from their papers, in the precision of their parameters."""

import torch

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonalised(matrix):
    """Five iterations of Newton-Schulz."""
    a, b, c = NEWTON_SCHULZ
    x = matrix / matrix.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


class Muon:
    """Of a list of matrices, with the factor that gives updates the root mean square of AdamW's."""

    def __init__(self, matrices, lr, momentum, weight_decay):
        self.matrices, self.lr, self.momentum, self.weight_decay = list(matrices), lr, momentum, weight_decay
        self.buffers = [torch.zeros_like(matrix) for matrix in self.matrices]

    @torch.no_grad()
    def step(self):
        for matrix, buffer in zip(self.matrices, self.buffers):
            buffer.mul_(self.momentum).add_(matrix.grad, alpha=1 - self.momentum)
            direction = self.momentum * buffer + (1 - self.momentum) * matrix.grad
            factor = 0.2 * max(matrix.shape) ** 0.5
            matrix.mul_(1 - self.lr * self.weight_decay).sub_(self.lr * factor * orthogonalised(direction))
