"""Compare what was taken in with what came of it, and name every file that nothing accounts for (BEY-50)."""
