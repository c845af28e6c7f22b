"""Arguments of Megatron-LM that a plan has no word for, and what is assumed of each."""

from __future__ import annotations

from explorer.importing.spec import NO_EFFECT

GONE = "as if it were not there"

_QUIET = (
    "adam-", "attention-dropout", "bias-", "blend", "check-", "clip-grad", "ckpt-", "async-save",
    "data-", "dataloader-type", "decoupled-", "distributed-backend", "distributed-timeout-minutes",
    "eod-mask-loss", "eval-", "exit-", "finetune", "hidden-dropout", "init-method", "initial-loss-scale",
    "loss-scale", "lr", "log-", "load", "make-vocab-size-divisible-by", "manual-gc", "mask-prob",
    "merge-file", "min-lr", "min-loss-scale", "mock-data", "mmap-", "no-mmap",
    "no-create-attention-mask-in-dataloader", "no-load-", "no-save-", "no-one-logger", "norm-epsilon",
    "layernorm-epsilon", "normalization", "num-dataset-builder-threads", "num-workers",
    "object-storage-cache-path", "one-logger", "override-opt", "per-split-data-args-path",
    "position-embedding-type", "pretrained-checkpoint", "profile", "qk-layernorm", "reset-", "rotary-",
    "save", "seed", "sft", "short-seq-prob", "split", "start-weight-decay", "end-weight-decay",
    "te-rng-tracker", "tensorboard-", "test-data-path", "timing-log", "tiktoken", "tokenizer-",
    "train-data-path", "train-iters", "train-samples", "use-checkpoint-", "use-mcore-models",
    "use-rope-scaling", "use-rotary-position-embeddings", "no-position-embedding", "no-rope-fusion",
    "valid-data-path", "vocab-extra-ids", "vocab-file", "wandb-", "weight-decay", "auto-detect",
    "apply-layernorm-1p", "no-persist-layer-norm", "dist-ckpt", "use-dist-ckpt", "use-legacy-models",
    "rope-", "add-qkv-bias", "disable-bias-linear", "export-", "enable-experimental", "calculate-per-token",
    "moe-aux-loss-coeff", "moe-z-loss-coeff", "moe-router-load-balancing-type", "moe-router-dtype",
    "moe-router-score-function", "moe-router-pre-softmax", "moe-router-bias-update-rate",
    "moe-router-topk-scaling-factor", "moe-router-enable-expert-bias", "hysteresis", "local-rank",
    "non-persistent", "replication", "fp8-margin", "fp8-interval", "fp8-amax", "tp-comm-bootstrap",
    "no-check-for-nan-in-loss-and-grad", "empty-unused-memory-level", "decrease-batch-size-if-needed",
)  # fmt: skip
"""Beginnings of arguments about data, checkpoints, logs, learning rates and numerics."""

_ASSUMED = {
    "attention-backend": "attention runs as the framework's profile says",
    "use-flash-attn": "attention runs as the framework's profile says",
    "transformer-impl": "kernels are those of the framework's profile",
    "attention-softmax-in-fp32": "kernels are those of the framework's profile",
    "no-masked-softmax-fusion": "kernels are those of the framework's profile",
    "no-gradient-accumulation-fusion": "kernels are those of the framework's profile",
    "gradient-accumulation-fusion": "kernels are those of the framework's profile",
    "cross-entropy-loss-fusion": "kernels are those of the framework's profile",
    "cross-entropy-fusion-impl": "kernels are those of the framework's profile",
    "enable-cuda-graph": "launches cost what the framework's profile says",
    "cuda-graph-impl": "launches cost what the framework's profile says",
    "cuda-graph-scope": "launches cost what the framework's profile says",
    "moe-grouped-gemm": "experts run as the framework's profile says",
    "moe-permute-fusion": "experts run as the framework's profile says",
    "moe-token-dispatcher-type": "tokens go by an all-to-all",
    "moe-enable-deepep": "tokens go by an all-to-all",
    "moe-expert-capacity-factor": "experts have equal loads",
    "moe-pad-expert-input-to-capacity": "experts have equal loads",
    "moe-token-drop-policy": "experts have equal loads",
    "moe-shared-expert-intermediate-size": "the model has what it has",
    "moe-layer-freq": "the model has what it has",
    "moe-router-topk": "the model has what it has",
    "moe-ffn-hidden-size": "the model has what it has",
    "rampup-batch-size": "the full batch from the first step",
    "overlap-param-gather": "weights are gathered before the next step",
    "overlap-param-gather-with-optimizer-step": "weights are gathered before the next step",
    "align-grad-reduce": "gradients of stages are reduced as each has them",
    "align-param-gather": "weights are gathered before the next step",
    "microbatch-group-size-per-virtual-pipeline-stage": "groups of as many microbatches as positions",
    "distribute-saved-activations": "kept inputs of blocks are whole on every rank",
    "use-precision-aware-optimizer": "states are in fp32",
    "main-grads-dtype": "gradients are added up in the precision that is said",
    "main-params-dtype": "weights of the optimizer are in fp32",
    "exp-avg-dtype": "states are in fp32",
    "exp-avg-sq-dtype": "states are in fp32",
    "fp8-param-gather": "weights are gathered in bf16",
    "fp8-recipe": "products in fp8 by the model of cost's own recipe",
    "optimizer-offload-fraction": "all states are on the host",
    "overlap-cpu-optimizer-d2h-h2d": "states are fetched before the update",
    "num-layers-at-start-in-bf16": "all blocks in fp8",
    "num-layers-at-end-in-bf16": "all blocks in fp8",
    "first-last-layers-bf16": "all blocks in fp8",
    "recompute-modules": "the inner part of attention is computed again",
    "mtp-num-layers": "no layers that predict further tokens",
    "use-tp-pp-dp-mapping": "ranks are numbered tensor, context, replicas, pipeline",
    "high-priority-stream-groups": "streams as the framework's profile says",
    "nccl-communicator-config-path": "collectives as the cluster's profile says",
    "use-sharp": "collectives as the cluster's profile says",
    "use-nccl-ub": "collectives as the cluster's profile says",
    "delay-wgrad-compute": "weight gradients with input gradients",
    "overlap-moe-expert-parallel-comm": "exchanges of experts are not hidden",
    "defer-embedding-wgrad-compute": "weight gradients with input gradients",
}


def assumption(key: str) -> str:
    """Return what is assumed of an argument for which a plan has no word.

    >>> assumption("--lr-decay-style")
    'no effect on the split'
    """
    name = key.lstrip("-")
    if name in _ASSUMED:
        return _ASSUMED[name]
    return NO_EFFECT if name.startswith(_QUIET) else GONE
