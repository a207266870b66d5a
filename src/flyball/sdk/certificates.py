"""Explains what is wrong with a server's certificate, with a remedy."""

from __future__ import annotations

import ssl

from flyball.sdk.errors import BadCertificate

NOT_YET_VALID, EXPIRED = 9, 10
WRONG_NAME = frozenset({62, 64})
"""OpenSSL's codes for a host name, or an IP address, that is not in the certificate."""
UNTRUSTED = frozenset({18, 19, 20, 21})
"""OpenSSL's codes for a self-signed certificate, alone or in a chain, or an untrusted issuer."""


def trusting(ca: str) -> ssl.SSLContext:
    """Return a context that trusts the certificates of a file.

    Raises:
        BadCertificate: the file cannot be read, or holds none.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # ssl.SSLError is one
        raise BadCertificate(
            f"cannot read certificates from {ca}: {error.strerror or error}",
            "give a PEM file with ca=...",
        ) from error


def certificate_problem(error: BaseException, url: str, ca: str) -> BadCertificate | None:
    """Return the error of a connection that failed because of TLS; None if TLS was not the cause.

    Args:
        url: of the control plane.
        ca: the file of certificates that are trusted; "" = those of the system.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _explained(cause, url, ca)
    if isinstance(cause, ssl.SSLError) and not isinstance(
        cause, ssl.SSLEOFError | ssl.SSLZeroReturnError
    ):
        reason = (cause.reason or str(cause)).lower().replace("_", " ")
        return BadCertificate(
            f"no TLS connection to {url}: {reason}",
            "check the URL: a control plane without --tls-cert is at http://",
        )
    return None


def _explained(error: ssl.SSLCertVerificationError, url: str, ca: str) -> BadCertificate:
    code, message = error.verify_code, error.verify_message.rstrip(".")
    if code in WRONG_NAME:
        return BadCertificate(
            f"the certificate of {url} is for another name: {message}",
            "use a URL with a name of the certificate, or start `flyball up` with a certificate "
            "whose subjectAltName has this one",
        )
    if code in UNTRUSTED:
        trusted = f"the certificates in {ca}" if ca else "the certificates of this system"
        return BadCertificate(
            f"the certificate of {url} is not trusted by {trusted}: {message}",
            "give its certificate, or that of its issuer, as a PEM file with ca=...",
        )
    if code in (NOT_YET_VALID, EXPIRED):
        what = "has expired" if code == EXPIRED else "is not valid yet"
        return BadCertificate(
            f"the certificate of {url} {what}",
            "start `flyball up` with a new --tls-cert and --tls-key, or set this machine's clock",
        )
    return BadCertificate(
        f"the certificate of {url} is refused: {message}", "start `flyball up` with another one"
    )
