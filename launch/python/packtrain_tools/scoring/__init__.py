"""`packtrain score`: scores of lm_eval's tasks. Importing this registers the model `packtrain` with lm_eval, if it is
there."""

import importlib.util

if importlib.util.find_spec("lm_eval") is not None:
    from packtrain_tools.scoring.harness_model import PacktrainModel as PacktrainModel
