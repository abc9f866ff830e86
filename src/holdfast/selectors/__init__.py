"""
Selectors: what a consumer says of the messages that it wants, by their headers and properties.

The language is that of JMS, a part of SQL-92: `JMSPriority > 3 AND region IN ('north', 'south')`.
What cannot be read is refused with the column; what was read never fails, whatever a message says.

Pure: a selector is text, and then a function of what a message is asked by name.
"""
