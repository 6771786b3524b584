"""PWM: a policy learned by first-order gradients through a world model, MLP or flow-matching dynamics."""
