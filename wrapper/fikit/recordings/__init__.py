"""Recorded timelines of programs: from profilers' files, and some that come with fikit. README.md says what is where."""
