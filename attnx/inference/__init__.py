"""What needs a trained model: loading it, predicting, evaluating, ensembles and replacing unknown symbols."""
