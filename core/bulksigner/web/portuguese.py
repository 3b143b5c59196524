"""The texts of the reference page in Portuguese, by their English text (DSH-57)."""

from __future__ import annotations

from collections.abc import Mapping

from bulksigner.web.openapi import INTRODUCTION

__all__ = ["LABELS", "SENTENCES"]

LABELS: Mapping[str, str] = {
    "REST API": "API REST",
    "Route": "Rota",
    "What it does": "O que faz",
    "Policy": "Política",
    "Parameters": "Parâmetros",
    "Name": "Nome",
    "Place": "Lugar",
    "Type": "Tipo",
    "Meaning": "Significado",
    "Body": "Corpo",
    "has to be sent": "obrigatório",
    "may be left out": "pode faltar",
    "Answers": "Respostas",
    "Status": "Status",
    "Content": "Conteúdo",
    "Shapes": "Formas",
    "path": "caminho",
    "query": "consulta",
}

SENTENCES: Mapping[str, str] = {
    INTRODUCTION: (
        "Erros são documentos de problema (RFC 9457): decida pelo `code`, os títulos podem mudar. Membros e códigos só "
        "são acrescentados; membros desconhecidos de uma requisição são ignorados, salvo onde a rota diz o contrário. "
        "`HEAD` é respondido como `GET`, sem corpo. Um caminho desconhecido é 404 e um método que o caminho não tem é "
        "405, ambos `request.invalid`. O que não é HTTP correto é recusado antes de qualquer rota: 413 "
        "`upload.too-large`, ou `request.invalid` com 400, 431 ou 501."
    ),
    "The process answers": "O processo responde",
    "Verdict of each check; 503 if red": "Veredito de cada verificação; 503 se vermelho",
    "The same with each detail": "O mesmo com cada detalhe",
    "A gating check is red": "Uma verificação impeditiva está vermelha",
    "Take a file in and queue it": "Recebe um arquivo e o põe na fila",
    "Tell whether a file would be signed, and if not why; nothing is kept": (
        "Diz se um arquivo seria assinado e, se não, por quê; nada é guardado"
    ),
    "One page of jobs": "Uma página de jobs",
    "A job and its timeline": "Um job e sua linha do tempo",
    "The signed files of up to 50 jobs, as one ZIP": "Os arquivos assinados de até 50 jobs, em um ZIP",
    "Up to 10,000 jobs as a workbook": "Até 10.000 jobs como planilha",
    "The signed file": "O arquivo assinado",
    "Queue a failed job's input again, as a new job": "Põe de novo na fila a entrada de um job falho, como novo job",
    "End a job that waits; its input stays": "Encerra um job que espera; a entrada dele fica",
    "Remove every job with its files, and all events so far": (
        "Remove todos os jobs com seus arquivos, e todos os eventos até agora"
    ),
    "Paused or not, and the jobs under way": "Pausado ou não, e os jobs em andamento",
    "Take up no more jobs": "Não inicia mais jobs",
    "Take up jobs again": "Volta a iniciar jobs",
    "The signing profiles": "Os perfis de assinatura",
    "One signing profile, by its name in any case": "Um perfil de assinatura, pelo nome, sem distinguir maiúsculas",
    "One page of operational events": "Uma página de eventos operacionais",
    "The types of which there are events": "Os tipos de que há eventos",
    "Metrics in the format of Prometheus": "Métricas no formato do Prometheus",
    "Input folders and how they fare": "As pastas de entrada e como estão",
    "Begin a browser session with the form fields `ApiKey` and `ReturnUrl`": (
        "Inicia uma sessão de navegador com os campos de formulário `ApiKey` e `ReturnUrl`"
    ),
    "End the browser session": "Encerra a sessão do navegador",
    "Go to `/login`": "Leva a `/login`",
    "Who asks, and how it was proved": "Quem pergunta, e como isso foi provado",
    "The page to sign in": "A página para entrar",
    "Signed in already: on to the page that was wanted": "Já entrou: segue para a página desejada",
    "What is missing": "O que falta",
    "The style of these pages": "O estilo dessas páginas",
    "What to tell: invalid or server.": "O que dizer: invalid ou server.",
    "The API key.": "A chave de API.",
    "The token that `GET /login` gives, or that of the session.": "O token que `GET /login` dá, ou o da sessão.",
    "Look through input folders": "Varre as pastas de entrada",
    'Apply the retention policy; with the body {"dryRun": true} preview it': (
        'Aplica a política de retenção; com o corpo {"dryRun": true}, apenas mostra o que faria'
    ),
    "Backups: settings, state, newest 50": "Backups: configuração, estado, os 50 mais novos",
    "Make a backup of the database": "Faz um backup do banco de dados",
    "End the backup under way": "Encerra o backup em andamento",
    "Choose the language of pages for a year, and go on to a page of this service": (
        "Escolhe o idioma das páginas por um ano, e segue para uma página deste serviço"
    ),
    "This interface as OpenAPI 3.1": "Esta interface como OpenAPI 3.1",
    "The same under another name": "O mesmo sob outro nome",
    "This interface as a page to read": "Esta interface como página de leitura",
    "The style of that page": "O estilo dessa página",
    "Only events of this type; may be repeated.": "Só eventos deste tipo; pode ser repetido.",
    "Only events from this time on, in ISO 8601; without an offset it is UTC.": (
        "Só eventos a partir deste instante, em ISO 8601; sem deslocamento, é UTC."
    ),
    "Only events before this time.": "Só eventos antes deste instante.",
    "Only events whose message has this text, letter by letter.": (
        "Só eventos cuja mensagem tem este texto, letra a letra."
    ),
    "Which page, from 1; a lower number reads as 1.": "Qual página, desde 1; um número menor vale 1.",
    "Items on a page; a higher number reads as 200.": "Itens por página; um número maior vale 200.",
    "Only jobs of this status.": "Só jobs deste status.",
    "Only jobs of this signing profile.": "Só jobs deste perfil de assinatura.",
    "Only jobs whose file name has this text, in any case.": (
        "Só jobs cujo nome de arquivo tem este texto, sem distinguir maiúsculas."
    ),
    "Only jobs created on this day (UTC) or later.": "Só jobs criados neste dia (UTC) ou depois.",
    "Only jobs created on this day (UTC) or earlier.": "Só jobs criados neste dia (UTC) ou antes.",
    "A job; may be repeated, for up to 50 jobs.": "Um job; pode ser repetido, até 50 jobs.",
    "Only this input folder.": "Só esta pasta de entrada.",
    "Signing profile; wins over the form.": "Perfil de assinatura; prevalece sobre o formulário.",
    "Signature format; wins over the form.": "Formato de assinatura; prevalece sobre o formulário.",
    "en-US or pt-BR.": "en-US ou pt-BR.",
    "Where to go on to: a path of this service.": "Para onde seguir: um caminho deste serviço.",
    "en or pt; without it, as the browser asks.": "en ou pt; sem ele, como o navegador pede.",
    "Why; kept in the history of the job or in the event.": "Por quê; fica no histórico do job ou no evento.",
    "Preview, and remove nothing.": "Só mostra, e nada remove.",
    "Signing profile; absent or blank means `default`.": "Perfil de assinatura; ausente ou em branco vale `default`.",
    "Pades, Cades, Xades; absent or blank: the profile's choice.": (
        "Pades, Cades, Xades; ausente ou em branco: a escolha do perfil."
    ),
    "The text of one JSON object of texts.": "O texto de um objeto JSON de textos.",
    "The file, with its file name.": "O arquivo, com seu nome.",
}
