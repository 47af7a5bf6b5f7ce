"""Support vector clustering without gamma: a vote of level trees."""
