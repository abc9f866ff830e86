"""The conductor: carries values between neighbours and is the only place that knows them all."""
