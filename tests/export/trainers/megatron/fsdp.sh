#!/bin/bash
unset CUDA_DEVICE_MAX_CONNECTIONS
torchrun --nproc_per_node 8 pretrain_gpt.py \
  --num-layers 32 \
  --hidden-size 4096 \
  --num-attention-heads 32 \
  --seq-length 8192 \
  --max-position-embeddings 8192 \
  --group-query-attention \
  --num-query-groups 8 \
  --ffn-hidden-size 14336 \
  --swiglu \
  --normalization RMSNorm \
  --use-rotary-position-embeddings \
  --no-position-embedding \
  --untie-embeddings-and-output-weights \
  --disable-bias-linear \
  --tensor-model-parallel-size 1 \
  --use-megatron-fsdp \
  --data-parallel-sharding-strategy optim_grads_params \
  --no-gradient-accumulation-fusion \
  --use-distributed-optimizer \
  --ckpt-format fsdp_dtensor \
  --micro-batch-size 1 \
  --global-batch-size 16 \
  --bf16 \
  --recompute-granularity selective \
  --recompute-modules core_attn
