"""Tables like those of users, with known classes and the best agreement that is possible."""
