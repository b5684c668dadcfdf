"""`packtrain push`: a folder and its model card for the Hugging Face Hub."""
