#!/bin/bash
NPROC=8
torchrun --nproc_per_node $NPROC pretrain_gpt.py --num-layers 30 --hidden-size 4096 --num-attention-heads 32 \
  --seq-length 2048 --max-position-embeddings 2048 --account-for-embedding-in-pipeline-split \
  --account-for-loss-in-pipeline-split --pipeline-model-parallel-size 8 --tensor-model-parallel-size 1 \
  --micro-batch-size 1 --global-batch-size 32 --bf16
