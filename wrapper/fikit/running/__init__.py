"""For `fikit run`: a fikitd of the user's own, and a program in the foreground as if it had been started directly."""
