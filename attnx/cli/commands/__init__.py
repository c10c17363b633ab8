"""What a trained run is used for: predict, try, evaluate. Mistakes in what is asked are told before torch loads."""
