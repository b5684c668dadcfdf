"""`packtrain chat`: answers of a trained model."""
