"""
The client: send, receive and commit through whichever broker leads now.

`connect` for asyncio, `holdfast.client.blocking.connect` for plain functions.
"""

from __future__ import annotations

import logging

from holdfast.client.connection import Connection, connect
from holdfast.client.consumer import Subscription
from holdfast.client.events import BrokerComplaint, Interrupted, Resumed
from holdfast.client.message import Message
from holdfast.client.pinging import Statistics
from holdfast.client.producer import Confirmation, Producer
from holdfast.client.sent_properties import Properties
from holdfast.client.sequence import Sent
from holdfast.client.settings import ClientSettings, TlsSettings
from holdfast.client.transaction import Transaction

__all__ = [
    "BrokerComplaint",
    "ClientSettings",
    "Confirmation",
    "Connection",
    "Interrupted",
    "Message",
    "Producer",
    "Properties",
    "Resumed",
    "Sent",
    "Statistics",
    "Subscription",
    "TlsSettings",
    "Transaction",
    "connect",
]

# A library is silent until the application sets up logging.
logging.getLogger("holdfast.client").addHandler(logging.NullHandler())
