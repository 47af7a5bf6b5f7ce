"""The choice between the level tree and iMDH, without labels."""
