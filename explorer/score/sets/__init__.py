"""Sets of published measurements, one file each; `explorer.score.rows.SETS` finds them."""
