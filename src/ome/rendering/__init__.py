"""Runtime + model + accelerator + service -> pod templates (this folder) and child objects (`children/`). Pure."""
