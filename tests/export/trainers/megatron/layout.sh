#!/bin/bash
torchrun --nproc_per_node=8 --nnodes=2 pretrain_gpt.py \
  --num-layers 30 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 \
  --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 \
  --pipeline-model-parallel-layout 'Ettt|(tttt|)*6tttL' \
  --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer --num-distributed-optimizer-instances 2
