#!/bin/bash
ARGS="--num-layers 61 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096"
ARGS="$ARGS --tensor-model-parallel-size 1 --pipeline-model-parallel-size 8"
ARGS="$ARGS --decoder-first-pipeline-num-layers 5 --decoder-last-pipeline-num-layers 8"  # the middle has 8 each
ARGS="$ARGS --micro-batch-size 1 --global-batch-size 64 --bf16 --recompute-activations"
exec torchrun --nproc_per_node 8 pretrain_gpt.py $ARGS
