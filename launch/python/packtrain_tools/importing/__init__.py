"""`packtrain import`: configurations of other trainers to ours."""
