"""Fields of Megatron Bridge's `ConfigContainer`, and the arguments of Megatron-LM that say the same."""

from __future__ import annotations

from collections.abc import Mapping

FIELDS: Mapping[str, str] = {
    "--num-layers": "model.num_layers",
    "--hidden-size": "model.hidden_size",
    "--ffn-hidden-size": "model.ffn_hidden_size",
    "--num-attention-heads": "model.num_attention_heads",
    "--kv-channels": "model.kv_channels",
    "--num-query-groups": "model.num_query_groups",
    "--seq-length": "model.seq_length",
    "--vocab-size": "model.vocab_size",
    "--make-vocab-size-divisible-by": "model.make_vocab_size_divisible_by",
    "--tensor-model-parallel-size": "model.tensor_model_parallel_size",
    "--sequence-parallel": "model.sequence_parallel",
    "--pipeline-model-parallel-size": "model.pipeline_model_parallel_size",
    "--num-virtual-stages-per-pipeline-rank": "model.virtual_pipeline_model_parallel_size",
    "--decoder-first-pipeline-num-layers": "model.num_layers_in_first_pipeline_stage",
    "--decoder-last-pipeline-num-layers": "model.num_layers_in_last_pipeline_stage",
    "--pipeline-model-parallel-layout": "model.pipeline_model_parallel_layout",
    "--account-for-embedding-in-pipeline-split": "model.account_for_embedding_in_pipeline_split",
    "--account-for-loss-in-pipeline-split": "model.account_for_loss_in_pipeline_split",
    "--context-parallel-size": "model.context_parallel_size",
    "--cp-comm-type": "model.cp_comm_type",
    "--tp-comm-overlap": "model.tp_comm_overlap",
    "--num-experts": "model.num_moe_experts",
    "--expert-model-parallel-size": "model.expert_model_parallel_size",
    "--expert-tensor-parallel-size": "model.expert_tensor_parallel_size",
    "--recompute-granularity": "model.recompute_granularity",
    "--recompute-modules": "model.recompute_modules",
    "--recompute-method": "model.recompute_method",
    "--recompute-num-layers": "model.recompute_num_layers",
    "--micro-batch-size": "train.micro_batch_size",
    "--global-batch-size": "train.global_batch_size",
    "--optimizer": "optimizer.optimizer",
    "--weight-decay": "optimizer.weight_decay",
    "--sgd-momentum": "optimizer.sgd_momentum",
    "--optimizer-cpu-offload": "optimizer.optimizer_cpu_offload",
    "--optimizer-offload-fraction": "optimizer.optimizer_offload_fraction",
    "--use-distributed-optimizer": "ddp.use_distributed_optimizer",
    "--use-megatron-fsdp": "ddp.use_megatron_fsdp",
    "--data-parallel-sharding-strategy": "ddp.data_parallel_sharding_strategy",
    "--num-distributed-optimizer-instances": "ddp.num_distributed_optimizer_instances",
    "--overlap-grad-reduce": "ddp.overlap_grad_reduce",
    "--ddp-bucket-size": "ddp.bucket_size",
    "--ckpt-format": "checkpoint.ckpt_format",
}
"""Field of each argument of Megatron-LM that is one field there."""

TIED, OVERLAPPED = "model.share_embeddings_and_output_weights", "model.overlap_p2p_comm"
PRECISION, IN_FP32 = "mixed_precision", "mixed_precision.grad_reduce_in_fp32"

PRECISIONS: Mapping[str, str] = {
    "bf16": "bf16_mixed",
    "fp16": "fp16_mixed",
    "fp8": "bf16_with_fp8_delayed_scaling_mixed",
}
"""Name of the precision that says each of ours."""

RECIPES: Mapping[str, tuple[str, str]] = {
    "llama3-8b": ("llama", "llama3_8b_pretrain_config"),
    "llama3-70b": ("llama", "llama3_70b_pretrain_config"),
    "llama3-405b": ("llama", "llama31_405b_pretrain_config"),
    "gpt3-175b": ("gpt", "gpt3_175b_pretrain_config"),
}
"""Package and function of the recipe of a model of the zoo."""

BESIDE: Mapping[str, str] = {
    "dataset.seq_length": "the length is that of model.seq_length",
    "scheduler.start_weight_decay": "the decay is that of optimizer.weight_decay",
    "scheduler.end_weight_decay": "the decay is that of optimizer.weight_decay",
    "optimizer.use_distributed_optimizer": "as ddp.use_distributed_optimizer says",
    "dist.use_megatron_fsdp": "as ddp.use_megatron_fsdp says",
    "ddp.overlap_param_gather": "weights are gathered before the next step",
    "ddp.average_in_collective": "no effect on the split",
    "model.batch_p2p_comm": "as model.overlap_p2p_comm says",
    "mixed_precision.fp8_param_gather": "weights are gathered in bf16",
    "comm_overlap": "transfers and collectives overlap as model and ddp say",
}
"""Fields that say once more what another one says, or of which a plan has no word, and what is assumed."""

GROUPS = frozenset({
    "model", "train", "validation", "optimizer", "scheduler", "ddp", "dist", "dataset", "logger", "tokenizer",
    "checkpoint", "rng", "profiling", "peft", "comm_overlap", "mixed_precision", "rerun_state_machine",
    "straggler", "nvrx_straggler", "inprocess_restart", "ft", "tensor_inspect", "env_vars",
})  # fmt: skip
"""Parts of a `ConfigContainer`."""
