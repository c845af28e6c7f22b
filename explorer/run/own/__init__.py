"""Own layers: the layers of the user's model as they run on a rank."""
