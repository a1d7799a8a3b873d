"""Vocabulary for drafting schemas: column names and common scales in several languages.

The languages are English, Spanish, German and French, and Italian for names of columns in registers
and hospitals.
"""

import re
from functools import cache

__all__ = [
    "AXES",
    "CATEGORICAL",
    "CONFIDENTIAL",
    "IDENTIFYING",
    "ID_SUFFIX",
    "NUMBERED",
    "QUASI_IDENTIFYING",
    "SCALES",
    "STABLE",
    "UNITS",
    "WEAKLY_IDENTIFYING",
    "WEIGHTS",
    "pattern",
]


# Each table maps a meaning to patterns that match a normalized column name (see
# draft.normalize); * stands for any letters.
IDENTIFYING = {
    "a person's name": (
        "^names?$, ^nombres?$, ^noms?$, surname*, (first|last|full|given|family|user) ?name, "
        "(patient|person|client|customer|contact|employee|student|member|participant|respondent)s? "
        "?names?, (name|nombre|nom) (of|des|der|del|de|du) .*, "
        "nome, cognome*, apellido*, nombre (completo|de pila), vorname*, nachname*, "
        "familienname*, prenom*, nom de famille"
    ),
    "an official ID number": (
        "codice fiscale, tessera sanitaria, nhc, (numero|num|no|nr) (de )?historia( clinica)?, "
        "historia clinica, ipp, nir, (kranken)?versichertennummer, kvnr, "
        "ssn, social security*, dni, nif, nie, nir, passport*, pasaporte, reisepass*, passeport, "
        "iban, (tax|national|steuer) id, steuernummer, sozialversicherung*, seguridad social, "
        "securite sociale, mrn, nhs( ?(no|number|nr))?, "
        "(insurance|medical record|versicherten|versicherungs) ?(no|nr|number|nummer|id), "
        "(numero|num|no|nr) (de )?(seguro|afiliado|assure|assurance|securite)( .*)?"
    ),
    "a card, account or policy number": (
        "(credit |customer |bank |health |member(ship)? |loyalty )?(card|account|policy|contract) "
        "?(id|no|nr|num|number|key), "
        "(kreditkarten|kunden ?karten|karten|gesundheitskarten|konto|policen|vertrags) "
        "?(id|nr|nummer), (numero|num|no|id) (de )?(la )?(tarjeta|cuenta|poliza|contrato|carte|"
        "compte|police|contrat)( .*)?, (tarjeta|carte) (id|num|numero)"
    ),
    "an email address or phone number": (
        "e ?mail*, mail, correo*, courriel, (tele)?phone*, telefon*, mobile, movil, fax"
    ),
    "a street address": (
        "address*, street*, direccion*, domicilio, calle, adresse*, anschrift*, strasse*, rue"
    ),
    "an ID of a person or record": (
        "^ids?$, ^index$, ^row ?num*$, uuid, guid, identificador, kennung, matricul[ae], "
        "(person|patient|subject|respondent|participant|record|case|client|user|customer|member|"
        "employee|student|paciente|persona|cliente|kunden?|personen|personal|patienten|"
        "teilnehmer|mitglieds?|fall|studenten|matrikel|beneficiario|usuario|participante|empleado|"
        "personne|usager|salarie|adherent|beneficiaire) ?"
        "(id|no|nr|num|number|key|numero|nummer|code|identifier|kennung), "
        "(id|numero|num|no|nr|code|identifiant|identificador) (de |del |de la |du |de l |d )?"
        "(patient|paciente|persona|personne|cliente|client|usuario|usager|empleado|salarie|"
        "participante?|beneficiario|beneficiaire|adherent|historia|dossier)e?s?"
    ),
    "an ID of a household or company": (
        "(household|family|dwelling|hh|haushalts?|familien|company|firm|employer|firmen|betriebs|"
        "unternehmens|hogar|familia|vivienda|empresa|menage|foyer|famille|entreprise) "
        "?(id|no|nr|num|number|key|numero|nummer|code|kennung), "
        "(id|numero|num|no|nr|code|identifiant|identificador) (de |del |de la |du |de l |d )?"
        "(hogar|familia|vivienda|empresa|menage|foyer|famille|entreprise)"
    ),
}
UNITS = {
    "a person or household": (
        "^(patient|person|subject|respondent|participant|client|customer|member|household|"
        "paciente|persona|cliente|hogar|usuario|kunde|kundin|patientin|haushalt|mitglied|"
        "personne|usager|menage|foyer|adherent)s?$"
    )
}
_BIRTH = {"a date of birth": "*birth*, dob, born, geburt*, nacimiento, naissance"}
STABLE = ("a sex or gender", "a date of birth")
"""Meanings of columns whose value is the same in all rows of a person."""

WEIGHTS = {
    "a sampling weight": (
        "*wgts?, pweight*, (sampl*|survey|design|final|person|population|replicate) "
        "?(weights?|wts?), pwt, (stichproben|umfrage|befragungs|erhebungs|design)gewicht*, "
        "*gewichtung*, hochrechnung*, ponderaci*, ponderation*, (pesos?|factor(es)?) (de (la "
        ")?)?(muestr*|encuesta|expansion|elevacion|diseno), (poids|coefficients?|facteurs?) (de |d "
        ")?(l )?(sondage|enquete|echantillon*|extrapolation|expansion)"
    ),
}
QUASI_IDENTIFYING = {
    "an age or date of birth": (
        "age, agegroup, edad*, alter, alters*, eta, *birth*, dob, born, geburt*, gebdat*, gebjahr, "
        "nacimiento, naissance, (data (di )?)?nascita"
    ),
    "a sex or gender": "sex, sexe, sexo, sesso, gender*, genero, geschlecht*, genre, genere",
    "a postal code": "zip*, postal*, post ?code*, plz, postleitzahl*, cp, cap",
    "a place": (
        "city*, town*, municip*, region*, provinc*, county, country*, state, district*, place*, "
        "location*, ort, wohnort, stadt*, bundesland, gemeinde*, ciudad, pais, barrio, ville, "
        "pays, commune*, comune, citta, provincia, regione, paese, latitud*, longitud*"
    ),
    "a ward or department": (
        "ward*, hospital ?unit, department*, station(en)?, fachabteilung*, abteilung*, klinik, "
        "servicio, unidad, planta, service, unite, reparto, dipartimento"
    ),
    "a date of admission or discharge": (
        "*admission*, *discharge*, *aufnahme*, *entlass*, einweisung*, ingreso, (fecha (de )?)?"
        "(ingreso|alta)( hospitalari[ao])?, (date (d )?)?(entree|sortie)( .*)?, ricovero*, "
        "(data (di )?)?(ricovero|dimissione)( .*)?"
    ),
    "education": (
        "educ*, school*, degree*, estudios, bildung*, ausbildung*, schul*, etudes, diplome*"
    ),
    "household information": (
        "household size, haushaltsgroe?sse, children, hijos, kinder, enfants, family size"
    ),
    "a marital status": (
        "marital*, married, civil status, estado civil, familienstand, etat civil, relationship"
    ),
    "origin or language": (
        "races?, ethnic*, nationalit*, nacionalidad, citizen*, staatsangehorigkeit, origin*, "
        "origen, herkunft*, raza, etnia, native*, language*, idioma, sprache*, langue"
    ),
    "an occupation": (
        "occup*, ocupacion, job*, profes*, beruf*, metier, employ*, empleo, work ?class, industry"
    ),
    "a body measure": (
        "height, weight, bmi, body mass*, altura, talla, peso, imc, groe?sse, gewicht, taille, "
        "poids"
    ),
}
CATEGORICAL = (
    "a sex or gender",
    "a place",
    "a marital status",
    "origin or language",
    "an occupation",
)
CONFIDENTIAL = {
    "an amount of money": "*income*, salar*, wages?, earning*, ingresos, renta, sueldo, "
    "*einkommen, gehalt*, lohn*, revenu*, debts?, "
    "costs?, charges?, costes?, *kosten, couts?",
    "health information": (
        "*diagnos*, icd( ?(9|10|11))?( .*)?, cie ?(9|10|11)( .*)?, cim ?1[01]( .*)?, ops, drg*, "
        "malattia*, patologia*, terapia*, trattamento*, disease*, hiv, aids, "
        "cancer*, tumou?r*, enfermedad*, *krankheit*, maladie*, symptom*, drugs?, treatment*, "
        "therap*, tratamiento, behandlung*, traitement, tsh, tpo, glucose*, cholest*, blood*"
    ),
    "a result or score": (
        "results?, scores?, resultados?, ergebnis*, resultats?, puntuacion, punktzahl, outcome*"
    ),
    "a belief or vote": (
        "religi*, vot(e|es|ed|o|ing), wahl*, partei*, party, partido, konfession, politic*, "
        "opinion*"
    ),
}
WEAKLY_IDENTIFYING = {
    "a name or ID": "names?, nombres?, noms?, namen, id, ids, identifi*, key, index"
}
# Except for ordinary words that end in "id".
ID_SUFFIX = {
    "an ID": r"(?!*(paid|void|acid|covid|grid|valid|fluid|liquid|lipid|solid|rapid|humid|[ir]oid|"
    r"brid)(?!\w))*\w\wid",
}
AXES = {
    "latitude": "lat, latitud*, breitengrad, breite",
    "longitude": "lon, lng, long, longitud*, langengrad, lange",
}
_PATTERNS = {
    **IDENTIFYING,
    **UNITS,
    **_BIRTH,
    **WEIGHTS,
    **QUASI_IDENTIFYING,
    **CONFIDENTIAL,
    **WEAKLY_IDENTIFYING,
    **ID_SUFFIX,
    **AXES,
}


@cache
def pattern(meaning: str) -> re.Pattern[str]:
    """Compile the pattern of column names with this meaning."""
    alternatives = _PATTERNS[meaning].replace("*", r"\w*").split(", ")
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)")


# Common scales, from lowest to highest degree; synonyms are separated by slashes.
_SCALE_TEXTS = (
    "very low/muy bajo/sehr niedrig/tres bas; low/bajo/baja/niedrig/bas/faible; "
    "medium/moderate/medio/mittel/moyen; high/alto/alta/hoch/haut/eleve; very high/muy "
    "alto/sehr hoch/tres eleve",
    "none/ninguno/keine/aucun; mild/slight/leve/leicht/leger; moderate/moderado/mittel/modere; "
    "severe/grave/schwer",
    "strongly disagree/muy en desacuerdo/stimme gar nicht zu/pas du tout d accord; disagree/en "
    "desacuerdo/stimme nicht zu/pas d accord; neutral/undecided/neither agree nor "
    "disagree/indeciso; agree/de acuerdo/stimme zu/d accord; strongly agree/muy de "
    "acuerdo/stimme voll zu/tout a fait d accord",
    "never/nunca/nie/jamais; rarely/seldom/rara vez/selten/rarement; sometimes/a "
    "veces/manchmal/parfois; often/a menudo/oft/haufig/souvent; always/siempre/immer/toujours",
    "very poor/very bad/muy malo/sehr schlecht; poor/bad/malo/schlecht/mauvais; "
    "fair/average/regular/passable; good/bueno/gut/bon; very good/muy bueno/sehr gut/tres bon; "
    "excellent/excelente/ausgezeichnet",
    "none; primary/elementary/primaria/grundschule/primaire; secondary/high "
    "school/secundaria/secondaire; "
    "bachelor/bachelors/university/universidad/universite/universitat; master/masters; "
    "doctorate/phd/ph d",
    "i; ii; iii; iv; v",
    "very dissatisfied/muy insatisfecho/sehr unzufrieden/tres insatisfait; "
    "dissatisfied/insatisfecho/unzufrieden/insatisfait; neutral/neutre; "
    "satisfied/satisfecho/zufrieden/satisfait; very satisfied/muy satisfecho/sehr "
    "zufrieden/tres satisfait",
    "xs; s/small/pequeno/klein/petit; m/medium/mediano/mittel/moyen; "
    "l/large/grande/gross/grand; xl; xxl",
)
SCALES = [
    {word: degree for degree, words in enumerate(scale.split("; ")) for word in words.split("/")}
    for scale in _SCALE_TEXTS
]
NUMBERED = re.compile(
    r"(?:grade|grado|grad|stage|stadium|level|nivel|stufe|niveau|class|klasse|clase|classe) (\d+)"
)
