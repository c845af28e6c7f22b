"""One file per set of published measurements; `explorer.score.rows.SETS` finds them."""
