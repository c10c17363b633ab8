"""The normalizer ``reinforced``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention.types import SampledWeights
from attnx.ops import hardmax, masked_normalize, sample_one_hot
from attnx.registry import NonNegativeFloat, PositiveFloat, Probability, register


@register("normalizer", "reinforced")
class Reinforced(nn.Module):
    """Read one sampled position; the likelihood of the target is the reward that says which positions to read.

    Formula: ``a_m = 1 at one s ~ p = softmax(e / T), else 0; of a share of the reads a = p; evaluation: s = argmax e;
        training adds - r R log p_s - k H(p) to the loss, R the reward, H the entropy``
    Source: Xu et al. 2015, section 4.1, equations 11 and 12, https://arxiv.org/abs/1502.03044

    :func:`attnx.ops.reinforce_loss` has the reward and its baseline. ``reward`` and ``entropy`` are their weights, the
    paper's lambda_r and lambda_e; ``expected`` is the share of the reads in training that have the mean of all samples,
    which are weights of a softmax. Each read is sampled on its own. Validation losses have neither term.

    >>> import torch
    >>> scores, mask = torch.tensor([3.0, 5.0, 9.0]), torch.tensor([True, True, False])
    >>> Reinforced()(scores, mask)
    tensor([0., 1., 0.])
    >>> Reinforced().sample(scores, torch.tensor([True, False, False])).weights
    tensor([1., 0., 0.])
    """

    is_distribution = True
    is_differentiable = False
    is_sampled = True

    def __init__(
        self,
        temperature: PositiveFloat = 1.0,
        reward: NonNegativeFloat = 1.0,
        entropy: NonNegativeFloat = 0.002,
        expected: Probability = 0.5,
    ) -> None:
        super().__init__()
        self.temperature, self.reward, self.entropy, self.expected = temperature, reward, entropy, expected

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> the weights (..., m) of evaluation; the gradient is that of ``hard``."""
        return hardmax(scores / self.temperature, allowed_mask)

    def sample(self, scores: Tensor, allowed_mask: Tensor) -> SampledWeights:
        """Scores (..., m) and their mask -> the weights (..., m) of training, log-probabilities and penalty (...)."""
        log_probs = masked_normalize(
            lambda row: torch.log_softmax(row, dim=-1), scores / self.temperature, allowed_mask
        )
        probabilities = log_probs.exp().masked_fill(~allowed_mask, 0.0)
        sampled = sample_one_hot(probabilities)
        is_expected = torch.rand(sampled.shape[:-1], device=sampled.device) < self.expected
        weights = torch.where(is_expected[..., None], probabilities, sampled)
        log_prob = (sampled * log_probs).sum(-1).masked_fill(is_expected, 0.0)
        negative_entropy = (probabilities * log_probs).sum(-1)
        return SampledWeights(weights, self.reward * log_prob, self.entropy * negative_entropy)
